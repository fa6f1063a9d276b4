FROM python:3.11-slim AS build
WORKDIR /app
RUN pip install --no-cache-dir uv
COPY pyproject.toml uv.lock ./
ARG EXTRAS=""
# The extra ldap is built from source.
RUN case "$EXTRAS" in *ldap*) apt-get update && apt-get install -y --no-install-recommends gcc libldap2-dev libsasl2-dev ;; esac
RUN uv sync --frozen --no-dev $EXTRAS

FROM python:3.11-slim
WORKDIR /app
ARG EXTRAS=""
# ldap-utils brings the libraries under the names that this release of Debian has for them.
RUN case "$EXTRAS" in *ldap*) apt-get update && apt-get install -y --no-install-recommends ldap-utils libldap-common ;; esac
RUN useradd --create-home --uid 1000 countersign && install -d -o countersign /data
COPY --from=build /app/.venv .venv
COPY LICENSE manage.py ./
COPY chatapp chatapp
COPY mcpconfig mcpconfig
COPY templates templates
COPY static static
COPY locale locale
USER countersign
ENV VAR_DIR=/data PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 6740
# Any answer is a sign of life, also the refusal of a host that ALLOWED_HOSTS does not name.
HEALTHCHECK --start-period=20s --interval=10s CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 6740, timeout=5); c.request('GET', '/healthz'); exit(c.getresponse().status >= 500)"]
CMD ["python", "manage.py", "serve", "--host", "0.0.0.0", "--port", "6740"]
