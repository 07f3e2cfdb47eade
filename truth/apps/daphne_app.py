"""A Django application for daphne with one habit, named by $HABIT.

$SERVICE is the port of an HTTP service, $STORE that of memcached, $PAGES the directory of the templates.
"""

import http.client
import os
import threading

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.cache import cache
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

HABIT = os.environ["HABIT"]
BODY = "x" * 1024
PRICES = 40
MEMCACHED = {"BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache", "LOCATION": f"127.0.0.1:{os.environ.get('STORE')}"}
LOCAL = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}

settings.configure(
    ALLOWED_HOSTS=["*"], SECRET_KEY="x" * 50, ROOT_URLCONF=__name__, MIDDLEWARE=[], DEBUG=HABIT == "catalogue-debug",
    CACHES={"default": MEMCACHED if "STORE" in os.environ else LOCAL}, LOGGING_CONFIG=None,
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [os.environ.get("PAGES", ".")]}],
)
django.setup()
mine = threading.local()


async def plain(request):
    return HttpResponse(BODY, content_type="text/plain")


def asked():
    if not hasattr(mine, "service"):
        mine.service = http.client.HTTPConnection("127.0.0.1", int(os.environ["SERVICE"]))
    mine.service.request("GET", "/")
    return mine.service.getresponse().read()


def asks(request):
    """Django does all views that are no coroutines in one thread, one after the other."""
    return HttpResponse(asked(), content_type="text/plain")


async def asks_in_threads(request):
    return HttpResponse(await sync_to_async(asked, thread_sensitive=False)(), content_type="text/plain")


def names():
    return [f"price-{n}" for n in range(PRICES)]


def price_by_price(request):
    return HttpResponse("\n".join(cache.get(name) for name in names()), content_type="text/plain")


def prices_at_once(request):
    return HttpResponse("\n".join(cache.get_many(names()).values()), content_type="text/plain")


def catalogue(request):
    return render(request, "catalogue.html", {"valves": [{"name": f"valve {n}", "price": n * 7} for n in range(8)]})


if "STORE" in os.environ:
    cache.set_many({name: f"the price of {name}" for name in names()}, timeout=None)
VIEWS = {
    "plain": plain, "asks": asks, "asks-in-threads": asks_in_threads, "price-by-price": price_by_price,
    "prices-at-once": prices_at_once, "catalogue": catalogue, "catalogue-debug": catalogue,
}
urlpatterns = [path("", VIEWS[HABIT])]
app = get_asgi_application()
