"""Resources of Django REST framework with one habit, named by $HABIT; $DATABASE is PostgreSQL's port."""

import os
import time

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import models
from django.urls import path

HABIT = os.environ["HABIT"]
DAY_S = 86400
LIMIT = 1_000_000
# Requests that came from this address today, before the first.
EARLIER = 30_000
SHOWN = 20
settings.configure(
    SECRET_KEY="no secret", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["rest_framework"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": os.environ["DATABASE"], "USER": "truth",
        "NAME": "postgres", "CONN_MAX_AGE": None,
    }},
    CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "visits"}},
    REST_FRAMEWORK={
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"], "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_PERMISSION_CLASSES": [], "UNAUTHENTICATED_USER": None,
        "DEFAULT_THROTTLE_RATES": {"anon": f"{LIMIT}/day"},
    },
)
django.setup()

# They read the settings when they are imported.
from django.core.cache import cache  # noqa: E402
from rest_framework import serializers  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.throttling import AnonRateThrottle, BaseThrottle  # noqa: E402
from rest_framework.views import APIView  # noqa: E402


class Valve(models.Model):
    name, note = models.TextField(), models.TextField()

    class Meta:
        app_label, db_table, managed = "plant", "valves", False


class ValveSerializer(serializers.ModelSerializer):
    class Meta:
        model, fields = Valve, ["id", "name", "note"]


class CountingThrottle(BaseThrottle):
    """One number for each address and day."""

    def allow_request(self, request, view):
        key = f"visits.{self.get_ident(request)}.{int(time.time()) // DAY_S}"
        cache.add(key, EARLIER, DAY_S)
        return cache.incr(key) <= LIMIT


class OneValve(APIView):
    # The framework's own keeps a list of the times of all requests within the period.
    throttle_classes = [AnonRateThrottle if HABIT == "one-throttled" else CountingThrottle]

    def get(self, request):
        return Response(ValveSerializer(Valve.objects.get(pk=7)).data)


class Valves(APIView):
    def get(self, request):
        valves = Valve.objects.filter(pk__lte=SHOWN)
        if HABIT == "listed-one-by-one":
            return Response([ValveSerializer(valve).data for valve in valves])
        return Response(ValveSerializer(valves, many=True).data)


now = time.time()
cache.set("throttle_anon_127.0.0.1", [now - n for n in range(EARLIER)], DAY_S)
urlpatterns = [path("valve", OneValve.as_view()), path("valves", Valves.as_view())]
app = get_wsgi_application()
