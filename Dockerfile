# A fake deployment in a container:
#
#   docker build -t ranksim .
#   docker run -p 8080:8080 -e RANKSIM_SERVE_CONTROL_TOKEN=secret ranksim --clock manual
#   docker run -p 8080:8080 -v ranksim:/data ranksim --state /data/state.db
#
# Every flag of `ranksim serve` is a variable too (RANKSIM_SERVE_CLOCK=manual); `--entrypoint ranksim` gives the
# other commands. docs/container.md has compose.yaml, and tests in Python and JavaScript that use the image.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /build
RUN python -m venv /opt/ranksim
COPY pyproject.toml constraints.txt ./
# What it stands on is a layer of its own, which edits of the source leave as it is.
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    print(*project['dependencies'], *project['optional-dependencies']['server'], sep='\n')" > requirements.txt \
    && /opt/ranksim/bin/pip install --no-cache-dir --no-compile -c constraints.txt -r requirements.txt
COPY README.md LICENSE ./
COPY src src
# Who runs it may not write there, so everything is compiled now; tests and the installer stay behind.
RUN /opt/ranksim/bin/pip install --no-cache-dir --no-compile -c constraints.txt '.[server]' \
    && /opt/ranksim/bin/pip uninstall --yes pip setuptools \
    && find /opt/ranksim/lib -type d -name tests -prune -exec rm -r {} + \
    && find /opt/ranksim/lib -name '*.so' -path '*numpy*' -name '*test*' -delete \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ranksim/lib

FROM ${BASE}
# A base may have Python's own library uncompiled, which costs every start a second, as nobody may write there.
RUN groupadd --gid 10001 ranksim && useradd --uid 10001 --gid 10001 --no-create-home ranksim \
    && mkdir /data && chown ranksim /data \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash -x '/(test|tests|idlelib|lib2to3|tkinter)/' \
        "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/ranksim /opt/ranksim
LABEL org.opencontainers.image.title=ranksim org.opencontainers.image.licenses=MIT \
    org.opencontainers.image.description="A fake deployment of a rank-tracking API"

# A number, so that Kubernetes can tell that it is not root (runAsNonRoot).
USER 10001:10001
VOLUME /data
ENV PATH=/opt/ranksim/bin:$PATH RANKSIM_SERVE_HOST=0.0.0.0 RANKSIM_SERVE_RECEIVE_HOST=0.0.0.0
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s CMD \
    ["python", "-c", "import os, urllib.request; \
    urllib.request.urlopen('http://127.0.0.1:%s/livez' % os.environ.get('RANKSIM_SERVE_PORT', 8080))"]
ENTRYPOINT ["ranksim", "serve"]
