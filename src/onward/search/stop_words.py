"""Words that are too common in a language to say what a text is about.

Chinese, Japanese and Korean words are given as pairs of characters, as they are indexed.
"""

from __future__ import annotations

# Left out of the index of texts in this language, and of queries.
STOP_WORDS = {
    "ca": """
        a això al als amb aquell aquella aquest aquesta aquestes aquests com d de del dels des doncs el ell
        ella elles ells els em en ens entre era eren es estan està et fa fins ha han has havia he hem hi ho i
        jo l la les li llur m mateix meu meva mi molt més n ni no nosaltres o on pel pels per perquè però que
        s sa se sense ser seu seus seva seves si sobre sota són t també teu teva tot tota totes tots tu un una
        unes uns va van vosaltres és
    """,
    "cs": """
        a aby ale ani až bez bude budou by byl byla byli bylo být co což další do ho i jak jako je jeho jej
        jejich její jen ještě ji jich jim již jsem jsme jsou jste já k když ke kterou která které který kteří
        ku mají mezi mi mu my má mít mě můj na nad ne nebo není než nic nám nás o od on ona oni po pod podle
        pokud pouze pro proto protože před při s se si sice své svůj ta tak také tato tedy ten tento to toho
        tom tomu tuto ty té tím těch u už v ve vy vám vás více však vše z za ze či že
    """,
    "da": """
        ad af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din disse dog du
        efter eller en end er et for fra ham han hans har havde hende hendes her hun i ikke ind jeg jer jo kan
        kunne man mange med meget men mig min mine mit mod ned noget nogle nu når og også om op os over på
        selv sig sin sine sit skal skulle som sådan thi til ud under var vi vil ville vor være været
    """,
    "de": """
        aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da
        dabei damit dann das dass daß dein deine dem den denn der deren des dessen die dies diese diesem
        diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer
        eure für gegen hab habe haben hat hatte hatten hier hin ich ihm ihn ihnen ihr ihre ihrem ihren ihrer
        ihres im in ins ist ja jede jedem jeden jeder jedes jetzt kann kein keine keinen können könnte mein
        meine meinem meinen meiner mich mir mit muss müssen nach nicht nichts noch nun nur ob oder ohne sehr
        sein seine seinem seinen seiner sich sie sind so soll sollte sondern sonst um und uns unser unsere
        unter viel vom von vor war waren weil wenn werde werden wieder will wir wird wirst wollen worden wurde
        wurden würde würden zu zum zur zwar zwischen über
    """,
    "el": """
        ένα ένας έχει έχουν ή ήταν ίσως α αλλά αν αντί από αυτά αυτές αυτή αυτοί αυτού αυτό αυτός αυτών για δε
        δεν εάν είμαι είναι είστε είχε εκείνη εκείνο εκείνος ενώ επί επειδή η θα κ και κατά κι μία μα μας με
        μετά μη μην μια μου να ο οι ου παρά που προς σαν σας σε σου στα στη στην στις στο στον στους στων συ
        τα τη την της τι τις το τον του τους των τότε ως όμως όπως όταν ότι ώστε
    """,
    "en": """
        a about above after again against all also am an and any are aren't as at be because been before being
        below between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down
        during each few for from further had hadn't has hasn't have haven't having he her here hers herself
        him himself his i if in into is isn't it its itself just me more most must my myself no nor not
        of off on once only or other our ours ourselves out over own same shall she should shouldn't so some
        such than that the their theirs them themselves then there these they this those through to too under
        until up upon very was wasn't we were weren't while will with within without won't would wouldn't you
        your yours yourself yourselves
    """,
    "es": """
        a al algo algunas algunos ante antes aquel aquella así aun aunque cada como con contra cual de del
        desde donde durante e el ella ellas ellos en entre era eran es esa esas ese eso esos esta estaba
        estado estar estas este esto estos está están fue fueron ha haber había han has hasta hay he la las le
        les lo los me mi mis mismo mucho muy más nada ni no nos nosotros nuestra nuestro o os otra otro otros
        para pero poco por porque pues que se sea ser si sido sin sino sobre son su sus sí también tan tanto
        te tener tiene tienen todo todos tu tus un una unas uno unos usted ustedes y ya yo él
    """,
    "fi": """
        ehkä ei eivät en et ette että he heidän heille hän häneen hänelle hänen häntä ja jo johon joka jolla
        jonka jos jossa josta jota joten jotka kanssa kautta koska kuin kun kyllä me meidän meille minulle
        minun minut minä mukaan mutta myös ne niiden niin niitä no noin nyt näiden näitä nämä ole olemme olen
        olet oli olisi olivat olla on ovat pitää saa se sekä sen siellä siihen siinä siis sinun sinä sitten
        sitä tai te teidän tuo tähän tämä tämän tässä tätä vaan vai vaikka vain voi yli
    """,
    "fr": """
        a ai ainsi alors as au aucun aussi autre autres aux avait avant avec avez avoir avons c car ce ceci
        cela celle celui ces cet cette ceux chez comme d dans de depuis des dont du elle elles en encore entre
        es est et eu eux faire fait faut furent il ils j je jusqu l la le les leur leurs lors lui m ma mais me
        mes moi moins mon même n ne ni nos notre nous on ont or ou où par pas peu peut plus pour puis qu quand
        que qui s sa sans se sera ses si soit son sont sous sur t ta te tes toi ton tous tout toute toutes
        trop très tu un une vos votre vous y à étaient était étant être
    """,
    "hu": """
        a abban ahogy aki amely ami amikor annak arra az azok azon azt azért be csak de e ebben egy egyik el
        ennek erre ez ezek ezen ezt ezért fel ha hanem hogy igen is itt kell kellett ki le legyen lehet lenne
        lesz ma meg mert mi minden mint most már még nagyon ne nekem neki nem nincs nélkül olyan ott saját sem
        semmi sok szerint talán te tehát több után vagy vagyok való van vannak vele velem vissza volna volt
        voltak át én és így össze ő ők őket
    """,
    "it": """
        a abbiamo ad agli ai al alla alle allo anche ancora avere aveva avevano c che chi ci come con contro
        cui d da dagli dai dal dalla dalle dallo degli dei del dell della delle dello di dopo e ed era erano
        essere essi fa fra fu furono gli ha hai hanno ho i il in io l la le lei li lo loro lui ma me mi mia
        mie miei mio molto ne negli nei nel nell nella nelle nello no noi non nostra nostro o ogni per perché
        però più poi può quella quelle quelli quello questa queste questi questo sarà se sei si sia siamo
        siete solo sono sta stata state stati stato su sua sue sugli sui sul sulla sulle sullo suo suoi tra tu
        tua tuo tutti tutto un una uno vi voi è
    """,
    "ja": """
        です ます した して する こと これ それ ある いる から まで では ので ない なの など ため よう への には
        とは ての った まし いて れて もの ただ でき
    """,
    "ko": """
        습니 니다 합니 입니 에서 으로 하는 하고 있는 그리 리고 까지 부터 그래 래서
    """,
    "nl": """
        aan af al alles als altijd andere ben bent bij daar dan dat de der deze die dit doch doen door dus een
        eens en er ge geen had hadden heb hebben heeft hem het hier hij hun iets ik in is ja je jij jouw kan
        kon kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat ons onze ook op
        over reeds te tegen toch toen tot u uit uw van veel voor want waren was we wel werd wezen wij wil
        worden wordt zal ze zei zelf zich zij zijn zo zonder zou
    """,
    "no": """
        alle andre at av bare ble bli blir blitt både da de deg dei dem den denne der dere deres det dette din
        disse ditt du eg eit en enn er et ett etter for fordi fra før ha hadde han hans har hennes her hun i
        ikke ikkje inn ja jeg kan kun kunne man mange med meg meget mellom men mens min mine mitt mot mye ned
        no noe noen nå når og også om opp oss over på samme seg selv si sin sine sitt skal skulle slik som så
        til um under upp ut uten var ved vi vil ville vore være vært
    """,
    "pl": """
        a aby ale ani aż bardzo bez bo by być był była było były ci co czy dla do gdy go i ich im ja jak jako
        je jego jej jest jestem jeszcze jeśli jeżeli już każdy kiedy ku ma mają mi mnie mną mogą może można mu
        my na nad nam nas nasz nasza nasze natomiast nawet nich nie niej nim nią niż no o od on ona oni ono
        oraz pan po pod ponieważ poza przed przez przy się sobie swoje są ta tak także tam te tego tej ten też
        to tu tutaj tych tylko tym u w wam was we więc wszystkich wszystko wy z za zaś ze że żeby
    """,
    "pt": """
        a ao aos aquela aquele aquilo as até com como da das de dela dele deles depois do dos e ela elas ele
        eles em entre era eram essa essas esse esses esta estas estava este estes está estão eu foi foram há
        isso isto já lhe lhes lo mais mas me mesmo meu meus minha minhas muito na nas nem no nos nossa nosso
        num numa não nós o os ou para pela pelas pelo pelos pode podem pois por porque se seja sem ser será
        seu seus sob sobre sua suas são só também te tem tenho ter tinha todos tu tua tudo têm um uma umas uns
        você vocês vos à às é
    """,
    "ro": """
        a abia acea aceasta această aceea acei aceia acel acela acele acest acesta aceste acestea acești
        aceștia acolo acum ai aici al ale alt alta alte alți am ar are asta astfel asupra atunci au avea avem
        aveți azi aș ca cea cei cel cele ceva chiar ci cu când câte că căci da dacă dar de deci deja despre
        deși din doar după e ea ei el ele era erau este eu face fi fie fiecare fiind fost i l la le li lor lui
        m mai mea mei mele meu mult multe mulți mă ne nici nimic noastră noi nostru nu o ori pe pentru peste
        poate prea prin s sa sale sau se si sub sunt suntem să t ta te toate toată tot totuși toți tu un una
        unde unei unele unii unor unul va vom vor vostru vă îi îl îmi în înainte încă între își îți și
    """,
    "ru": """
        а без более будет бы был была были было быть в вам вас весь во вот все всего всех всё вы да даже для
        до его ее если есть еще ещё её же за здесь и из или им их к как ко когда ли либо меня мне может можно
        мой моя мы на над надо нам нас наш не него нее ней нет ни ним них но ну о об однако он она они оно от
        очень по под потому при с своих свой себя со так также такой там те тем то тогда того тоже той только
        том ты у уже хотя чем через что чтобы эта эти этих это этого этой этом этот я
    """,
    "sv": """
        alla allt att av blev bli blir blivit de dem den denna deras dess dessa det detta dig din dina ditt du
        där då efter ej eller en er era ert ett från för göra ha hade han hans har hennes hon honom här i icke
        ingen inom inte jag ju kan kunde man med mellan men mig min mina mitt mot mycket ni nu när någon något
        några och också om oss på samma sedan sig sin sina sitt själv ska skall skulle som så sådan till under
        upp ut utan vara varit vi vid vilka vill vår våra än är åt över
    """,
    "tr": """
        acaba ama ancak artık aslında az bana bazı belki ben beni benim bile bir biri birkaç birçok biz bize
        bizi bizim bu buna bunda bundan bunlar bunu bunun böyle da daha de defa değil diye dolayı en eğer
        fakat gibi göre hem hep hepsi her hiç ile ise için işte kadar kez ki mi mu mü mı o olan olarak oldu
        olduğu olması olsa olup ona ondan onlar onu onun oysa pek rağmen sadece sanki sen senin siz sizin
        sonra tarafından tüm var ve veya ya yani yine yok zaten çok çünkü önce üzere şey şeyler şimdi şu
    """,
    "zh": """
        我们 你们 他们 这个 那个 这些 那些 一个 没有 可以 因为 所以 但是 如果 就是 不是
        也是 还是 以及 或者 我們 你們 他們 這個 那個 這些 沒有 因為 還是
    """,
}

# Stop words that are indexed nevertheless: half a sentence finds its mail by them. Questions do not ask for them.
INDEXED_STOP_WORDS = {
    "en": """
        about above after again against all also am any because been before being below between both can
        cannot could did do does doing down during each few from further had has have having he her here
        hers herself him himself his i its itself just me more most must my myself nor off once only
        other our ours ourselves out over own same shall she should so some than theirs them themselves
        those through too under until up upon very we were while within without would you your yours
        yourself yourselves
    """,
}

# Verbs that begin a question. A sentence that begins with another stop word, such as "it", is none.
QUESTION_VERBS = {
    "de": "darf gibt hat haben ist kann können muss müssen sind soll sollte war waren wird wurde",
    "en": "am are can could did do does had has have is may might must shall should was were will would",
    "es": "es está están hay puede pueden puedo son tiene",
    "fr": "a-t-il est est-ce ont peut peut-on sont",
    "it": "c'è ci ha hanno posso può sono è",
    "nl": "heeft hebben is kan kunnen moet mag was waren wordt zijn",
    "pt": "está existe há pode posso são tem é",
}

# Left out of queries only: they begin a question, but may be what a short text is about.
QUESTION_WORDS = {
    "ca": """
        gràcies hola quan quant quanta quants qui quin quina quines quins què
    """,
    "cs": """
        jakou jaká jaké jaký kam kde kdo kdy kolik prosím proč čí
    """,
    "da": """
        hvad hvem hvilke hvilken hvilket hvis hvor hvordan hvorfor hvorledes hvornår
    """,
    "de": """
        bitte gibt viele wann warum was welche welchem welchen welcher welches wem wen wer weshalb wessen wie
        wieso wieviel wieviele wo wofür woher wohin womit worüber
    """,
    "el": """
        γιατί ποια ποιες ποιο ποιοι ποιος ποιους πού πόσα πόσες πόση πόσο πόσοι πόσος πότε πώς
    """,
    "en": """
        anyone anything how how's many may might much please someone something tell what what's whatever when
        when's where where's whether which who who's whom whose why
    """,
    "es": """
        adónde cuál cuáles cuándo cuánta cuántas cuánto cuántos cómo dónde favor porqué quién quiénes qué
    """,
    "fi": """
        kenen ketä kuinka kuka kumpi mihin miksi mikä millainen milloin minkä missä mistä miten mitkä mitä
        paljonko
    """,
    "fr": """
        combien comment laquelle lequel lesquelles lesquels pourquoi quel quelle quelles quels quoi
    """,
    "hu": """
        hogyan hol honnan hova hány kik kinek mely melyik mennyi mik mikor milyen mit miért
    """,
    "it": """
        cos cosa dov dove qual quale quali quando quanta quante quanti quanto
    """,
    "ja": """
        どう どこ 何が いつ だれ 誰が なぜ いく くら 何で 何を 何の なに なん
        すか どの どれ ださ さい 教え
    """,
    "ko": """
        무엇 어떻 떻게 언제 어디 누가 누구 얼마 왜 무슨 어느 어떤 입니 니까
    """,
    "nl": """
        hoe hoeveel waar waarmee waarom waarvoor wanneer wat welk welke wie wiens
    """,
    "no": """
        hva hvem hvilke hvilken hvilket hvis hvor hvordan hvorfor korleis kva kvar kven
    """,
    "pl": """
        czego czemu czyj dlaczego dokąd gdzie ile jaka jaki jakie kim kogo komu kto która które który skąd
    """,
    "pt": """
        aonde onde porquê quais qual quando quanta quantas quanto quantos que quem
    """,
    "ro": """
        care ce cine cui cum cât câtă câți cărui
    """,
    "ru": """
        где зачем какая какие какого какой какую кого кому которая которые который кто куда откуда почему
        сколько чего чей чему
    """,
    "sv": """
        hur vad var varför varifrån vart vem vems vilken vilket
    """,
    "tr": """
        hangi hangisi kaç kim kime kimin nasıl ne neden nerede nereden nereye niye niçin zaman
    """,
    "zh": """
        什么 怎么 怎样 如何 多少 哪里 哪儿 哪个 谁的 为什 为何 什麼 怎麼 怎樣 哪裡 哪個 為什 几个 幾個
    """,
}

# Stop words of other languages that name something in English: a query keeps them if the store has English texts.
ENGLISH_WORDS = """
    ad ai ale ante bare ben bent bin car care cat cine come comment con contra cum den die dies dig din dog
    door dove ember encore end era face favor fins fur go gore ham hat hay hem hoe hon inn ins jag jake jest
    las lo los man mar mas meme men met mine mint mis mod molt mon mot multi num nun pan par para pas per plus
    pod pour pro proc quant sale sans sea sedan seine sense sin sine sit sob solo son state sub sue sus ta tan
    tech ten till tom ton tot tout va vain van var vice volt want war
"""
