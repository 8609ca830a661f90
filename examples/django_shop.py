"""Orders in Django, stored with their events: python -m examples.django_shop; uvicorn examples.django_shop:shop"""

from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.db import connection, models, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from onward import App, Document, Event, Work, names

app = App()
url = urlsplit(app.store_address)  # the orders are in the database of the store
engine = "sqlite3" if url.scheme == "sqlite" else "postgresql"
database = {"ENGINE": f"django.db.backends.{engine}", "NAME": url.path[1:], "HOST": url.hostname, "PORT": url.port}
database |= {"USER": url.username, "PASSWORD": unquote(url.password or "")}
settings.configure(DATABASES={"default": database}, ROOT_URLCONF=__name__)
shop = get_asgi_application()


class Order(models.Model):  # type: ignore[misc]
    number = models.CharField(max_length=20, primary_key=True)

    class Meta:
        app_label = "shop"


class Parcel(Document):
    article: str


class OrderPlaced(Event):
    parcel_id: str = names(Parcel)


@app.service("packing", on=OrderPlaced, finishes=Parcel)
def pack(parcel: Parcel, work: Work) -> None:
    print(f"Order {parcel.id}: {parcel.article}")


def place_order(request: HttpRequest) -> JsonResponse:
    parcel = Parcel(id=request.POST["number"], article=request.POST["article"])
    with transaction.atomic():  # both, or neither
        app.publish(OrderPlaced.of(parcel), documents=[parcel], connection=connection)
        Order.objects.create(number=parcel.id)
    return JsonResponse({"order": parcel.id}, status=202)


async def order_status(request: HttpRequest, number: str) -> JsonResponse:
    state = await app.astate(Parcel, number)
    return JsonResponse({"status": state.status if state else None}, status=200 if state else 404)


urlpatterns = [path("orders", place_order), path("orders/<number>", order_status)]

if __name__ == "__main__":
    app.store  # noqa: B018 (opens it, so that its folder is there)
    with connection.schema_editor() as editor:
        editor.create_model(Order)
