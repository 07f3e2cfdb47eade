"""A Pyramid application with SQLAlchemy and one habit, named by $HABIT; $DATABASE is the port of PostgreSQL."""

import os
import random

from pyramid.config import Configurator
from pyramid.response import Response
from sqlalchemy import Column, Integer, Text, create_engine, exc, text
from sqlalchemy.orm import Session, declarative_base, joinedload, relationship, selectinload, sessionmaker

HABIT = os.environ["HABIT"]
BODY = "x" * 1024
# What hangs on each of the first 20 valves.
TABLES = [f"create table if not exists {name} as select v * 1000 + n as id, v as valve_id, '{name} ' || n as name"
          f" from generate_series(1, 20) v, generate_series(1, 25) n" for name in ("parts", "repairs")]
ATTEMPTS, COUNTERS = 50, 3
Base = declarative_base()


class Part(Base):
    __tablename__ = "parts"
    id, valve_id, name = Column(Integer, primary_key=True), Column(Integer), Column(Text)


class Repair(Base):
    __tablename__ = "repairs"
    id, valve_id, name = Column(Integer, primary_key=True), Column(Integer), Column(Text)


class Valve(Base):
    __tablename__ = "valves"
    id, name, note = Column(Integer, primary_key=True), Column(Text), Column(Text)
    parts = relationship(Part, primaryjoin="foreign(Part.valve_id) == Valve.id", viewonly=True)
    repairs = relationship(Repair, primaryjoin="foreign(Repair.valve_id) == Valve.id", viewonly=True)


class Counter(Base):
    __tablename__ = "counters"
    id, n = Column(Integer, primary_key=True), Column(Integer)


def sessions(**settings):
    where = f"postgresql://truth@127.0.0.1:{os.environ['DATABASE']}/postgres"
    engine = create_engine(where, pool_size=16, isolation_level=settings.pop("isolation", "READ COMMITTED"))
    with engine.begin() as connection:
        for table in TABLES:
            connection.execute(text(table))
    return sessionmaker(engine, **settings)


def listed(new_session):
    """Twenty valves, shown after the transaction's end."""
    def page():
        with new_session() as session:
            valves = session.query(Valve).filter(Valve.id <= 20).all()
            session.commit()
            return "\n".join(valve.name for valve in valves)
    return page


def card(new_session, load):
    """One valve with what hangs on it."""
    def page():
        with new_session() as session:
            valve = session.query(Valve).options(load(Valve.parts), load(Valve.repairs)).filter(Valve.id == 7).one()
            return "\n".join(one.name for one in [*valve.parts, *valve.repairs])
    return page


def read_and_written(session: Session, which):
    counter = session.get(Counter, which)
    counter.n += 1


def added_in_place(session: Session, which):
    session.query(Counter).filter(Counter.id == which).update({"n": Counter.n + 1}, synchronize_session=False)


def visit(new_session, count):
    """Counts a visit of one of three pages; what fails for another's change is done again, as is advised."""
    def page():
        which = random.randint(1, COUNTERS)
        for _ in range(ATTEMPTS):
            with new_session() as session:
                try:
                    count(session, which)
                    session.commit()
                    return BODY
                except exc.OperationalError:
                    session.rollback()
        raise TimeoutError("too many attempts")
    return page


PAGES = {
    "plain": lambda: lambda: BODY,
    "expiring": lambda: listed(sessions()),
    "not-expiring": lambda: listed(sessions(expire_on_commit=False)),
    "joined": lambda: card(sessions(), joinedload),
    "selected": lambda: card(sessions(), selectinload),
    "serializable": lambda: visit(sessions(isolation="SERIALIZABLE"), read_and_written),
    "in-place": lambda: visit(sessions(), added_in_place),
}
work = PAGES[HABIT]()
with Configurator() as config:
    config.add_route("page", "/")
    config.add_view(lambda request: Response(work(), content_type="text/plain"), route_name="page")
    app = config.make_wsgi_app()
