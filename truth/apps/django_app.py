"""A Django application with one habit, named by $HABIT; $DATABASE is PostgreSQL's port."""

import os

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import models
from django.http import JsonResponse
from django.urls import path

HABIT = os.environ["HABIT"]
settings.configure(
    SECRET_KEY="no secret", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": os.environ["DATABASE"], "USER": "truth",
        "NAME": "postgres",
        # Zero is Django's default: the connection is closed at the end of each request.
        "CONN_MAX_AGE": 0 if HABIT == "default-age" else None,
    }},
)
django.setup()


class Valve(models.Model):
    name, note = models.TextField(), models.TextField()

    class Meta:
        app_label, db_table, managed = "plant", "valves", False


class Counter(models.Model):
    """Of the valve of the same number."""
    valve = models.OneToOneField(Valve, models.DO_NOTHING, primary_key=True, db_column="id")
    n = models.IntegerField()

    class Meta:
        app_label, db_table, managed = "plant", "counters", False


def one_row():
    return [Valve.objects.get(pk=7).name]


def listed(counters):
    return [{"valve": counter.valve.name, "n": counter.n} for counter in counters.filter(pk__lte=30)]


HABITS = {"default-age": one_row, "one-row": one_row, "related-rows": lambda: listed(Counter.objects),
          "joined-rows": lambda: listed(Counter.objects.select_related("valve"))}


def page(request):
    return JsonResponse({"rows": HABITS[HABIT]()})


urlpatterns = [path("", page)]
app = get_wsgi_application()
