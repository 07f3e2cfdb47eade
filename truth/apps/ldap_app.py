"""A telephone book on a directory (python-ldap), with one habit: $HABIT; $DIRECTORY is the port of slapd."""

import os
import threading

import ldap

HABIT = os.environ["HABIT"]
URI = f"ldap://127.0.0.1:{os.environ['DIRECTORY']}"
BASE = "ou=people,dc=truth"
own = threading.local()


def connected():
    connection = ldap.initialize(URI)
    connection.simple_bind_s("cn=book,dc=truth", "open and shut")
    return connection


def kept():
    """A connection for each thread."""
    if not hasattr(own, "connection"):
        own.connection = connected()
    return own.connection


def line(entry):
    return entry["cn"][0] + b" " + entry["telephoneNumber"][0]


def found(connection, condition):
    return [line(entry) for _, entry in connection.search_s(BASE, ldap.SCOPE_ONELEVEL, condition, ["cn", "telephoneNumber"])]


def whose_number():
    return found(kept(), "(telephoneNumber=+49 30 1234)")


def person():
    return found(kept(), "(uid=user1234)")


def person_bound_each_time():
    connection = connected()
    try:
        return found(connection, "(uid=user1234)")
    finally:
        connection.unbind_s()


def members():
    _, group = kept().search_s("cn=fitters,ou=groups,dc=truth", ldap.SCOPE_BASE, "(objectClass=*)", ["memberUid"])[0]
    return [name.decode() for name in group["memberUid"]]


def group_one_by_one():
    return [text for name in members() for text in found(kept(), f"(uid={name})")]


def group_at_once():
    return found(kept(), "(|" + "".join(f"(uid={name})" for name in members()) + ")")


PAGES = {
    "number": whose_number, "person": person, "person-bound-each-time": person_bound_each_time,
    "group-one-by-one": group_one_by_one, "group": group_at_once,
}


def app(environ, start_response):
    body = b"\n".join(PAGES[HABIT]()) + b"\n"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
