"""The language of texts on pages: browsers choose fonts and voices by it."""

from __future__ import annotations

import re

import pytest

from onward.console.text_language import language_tag
from tests.support.console_client import HTML, Site

TEXTS = {
    "ja": ("潮位.txt", "港の潮位計は嵐のあとに高い値を示しています。直角に曲がった管を調べてください。"),
    "zh-Hans": ("说明.txt", "这个港口的潮位计在风暴之后显示过高的数值。请检查管道，谢谢你们的帮助。"),
    "zh-Hant": ("說明.txt", "這個港口的潮位計在風暴之後顯示過高的數值。請檢查管道，謝謝你們的幫助。"),
    "ko": ("조위.txt", "폭풍 이후 항구의 조위계가 높은 값을 나타냅니다. 관을 확인해 주세요."),
    "de": ("pegel.txt", "Der Pegel am Hafen zeigt seit dem Sturm zu hohe Werte. Bitte prüft das Rohr."),
}


@pytest.mark.parametrize(
    ("language", "text", "tag"),
    (
        ("de", "", "de"),
        ("zh", "这个", "zh-Hans"),
        ("zh", "這個", "zh-Hant"),
        ("zh", "", "zh-Hans"),
        ("", "text", ""),
        ("python", "", ""),
        ('en" onload="', "", ""),
    ),
)
def test_a_language_becomes_the_tag_that_html_has_for_it(language: str, text: str, tag: str) -> None:
    assert language_tag(language, text) == tag


def test_texts_are_marked_with_their_language_wherever_they_are_read(site: Site) -> None:
    for name, text in TEXTS.values():
        site.client.post("/v3/documents", json={"content": text, "title": name})
    site.client.post("/v3/documents", json={"content": "def tide():\n    return 1\n", "title": "tide.py"})
    site.app.work_until_idle()
    for tag, (name, text) in TEXTS.items():
        found = site.client.get("/search", params={"q": text[:12]}, headers=HTML).text
        hits = dict(re.findall(r'<a class="hit" href="([^"]+)" lang="([^"]+)">', found))
        (path,) = [path for path, shown in hits.items() if shown == tag]
        thread = site.page(path)
        assert f'<div class="text" lang="{tag}">' in thread
        assert f'<h1 lang="{tag}">{name}</h1>' in thread
    code = site.client.get("/search", params={"q": "path:tide.py"}, headers=HTML).text
    assert not re.search(r'<a class="hit" href="[^"]+" lang=', code)
