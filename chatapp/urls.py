"""The project's addresses."""

from django.contrib import admin
from django.urls import path

from chatapp.views import approvals, conversations, health, messages, sign_in

urlpatterns = [
    path("", conversations.new_chat, name="home"),
    path("c/new/messages", messages.send, name="send-first"),
    path("c/<uuid:conversation_id>/", conversations.conversation, name="conversation"),
    path("c/<uuid:conversation_id>/messages", messages.send, name="send"),
    path("c/<uuid:conversation_id>/stop", messages.stop, name="stop"),
    path("sidebar/", conversations.sidebar_list, name="sidebar"),
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<uuid:call_id>/", approvals.approval, name="approval"),
    path("approvals/<uuid:call_id>/decide", approvals.decide, name="decide"),
    path("approvals/<uuid:call_id>/resolve", approvals.resolve, name="resolve"),
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/<str:token>/", sign_in.by_link, name="sign-in-by-link"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("password/", sign_in.set_password, name="set-password"),
    path("healthz", health.alive, name="healthz"),
    path("readyz", health.ready, name="readyz"),
    path("admin/", admin.site.urls),
]
