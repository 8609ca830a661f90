"""A welcome mail, published in the transaction that stores the user: python -m examples.welcome NAME@HOST."""

import sys

import sqlalchemy as sa

from onward import App, Document, Event, Work, names


class Welcome(Document):
    address: str


class UserSignedUp(Event):
    welcome_id: str = names(Welcome)


app = App()
users = sa.Table("users", sa.MetaData(), sa.Column("address", sa.String, primary_key=True))


@app.service("welcoming", on=UserSignedUp, finishes=Welcome)
def send(welcome: Welcome, work: Work) -> None:
    print(f"To {welcome.address}: welcome!")


def sign_up(engine: sa.Engine, address: str) -> None:
    welcome = Welcome(id=address, address=address)
    with engine.begin() as connection:  # both, or neither
        app.publish(UserSignedUp.of(welcome), documents=[welcome], connection=connection)
        connection.execute(users.insert().values(address=address))


if __name__ == "__main__":
    url, _ = sa.make_url(app.store_address), app.store  # the users are in the database of the store
    driver = "sqlite" if url.drivername == "sqlite" else "postgresql+psycopg"
    users.create(database := sa.create_engine(url.set(drivername=driver, query={})), checkfirst=True)
    sign_up(database, sys.argv[1])
    app.work_until_idle()
