# A fake deployment in a container:
#
#   docker build -t ranksim .
#   docker run -p 8080:8080 -v ranksim:/data ranksim --clock manual --state /data/state.db
#
# Every flag of `ranksim serve` is a variable too (RANKSIM_SERVE_CLOCK=manual). The control API wants the token
# that is printed at the start, or RANKSIM_SERVE_CONTROL_TOKEN. This file has not been built yet: no container
# engine was at hand.
FROM python:3.11-slim

WORKDIR /app
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt '.[server]' \
    && useradd --uid 10001 --no-create-home ranksim \
    && mkdir /data \
    && chown ranksim /data

USER ranksim
VOLUME /data
ENV RANKSIM_SERVE_HOST=0.0.0.0 RANKSIM_SERVE_LOG_FORMAT=json
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s CMD \
    ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/livez')"]
ENTRYPOINT ["ranksim", "serve"]
