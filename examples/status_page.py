"""Submit texts and see their status: uvicorn examples.status_page:web; its worker counts their words."""

from fastapi import FastAPI, HTTPException

from onward import App, Document, Event, Work, names


class Text(Document):
    text: str


class WordCount(Document):
    words: int


class TextSubmitted(Event):
    text_id: str = names(Text)


app, web = App(), FastAPI()


@app.service("counting", on=TextSubmitted, finishes=Text)
def count(text: Text, work: Work) -> None:
    work.add(WordCount(id=text.id, words=len(text.text.split())))


@web.post("/texts", status_code=202)
async def submit(text: Text) -> None:  # the same id again is the same document
    await app.apublish(TextSubmitted.of(text), documents=[text])


@web.get("/texts/{id}")
async def status(id: str) -> dict[str, object]:
    if (state := await app.astate(Text, id)) is None:
        raise HTTPException(404, f"there is no text {id!r}")
    counted = await app.aget(WordCount, id)
    return {"status": state.status, "words": counted and counted.words}
