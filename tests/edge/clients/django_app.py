"""A Django project in one file: django-eventstream and its own event storage. django_app.py PORT CONTROL KEY DATABASE"""

import json
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse

port, control, key, database = sys.argv[1:]
settings.configure(
    SECRET_KEY="a secret of a test, which is long enough",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_eventstream"],
    MIDDLEWARE=["django_grip.GripMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    GRIP_PROXIES=[{"control_uri": f"http://127.0.0.1:{control}", "control_iss": "pushpin", "key": key}],
    EVENTSTREAM_STORAGE_CLASS="django_eventstream.storage.DjangoModelStorage",
)
django.setup()

from django.urls import include, path  # noqa: E402
from django_eventstream import send_event  # noqa: E402
from django_eventstream.eventstream import get_storage  # noqa: E402


def send(request):
    send_event("news", "message", {"text": request.GET["text"]})
    return HttpResponse("sent")


def store(request):
    """Stores an event without publishing it, as if its publish was lost."""
    get_storage().append_event("news", "message", json.dumps({"text": request.GET["text"]}))
    return HttpResponse("stored")


urlpatterns = [
    path("events/", include("django_eventstream.urls"), {"channels": ["news"]}),
    path("send/", send),
    path("store/", store),
]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *arguments):
        pass


call_command("migrate", verbosity=0)
make_server("127.0.0.1", int(port), get_wsgi_application(), Server, Quiet).serve_forever()
