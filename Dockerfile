# The decision service: docker build -t releaf .   (docs/how-to/service.md tells how to run it)
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/releaf && /opt/releaf/bin/pip install --no-cache-dir ".[service]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home releaf && install -d -o releaf -g releaf /data /opt/kernels
COPY --from=build /opt/releaf /opt/releaf
ENV PATH=/opt/releaf/bin:$PATH NUMBA_CACHE_DIR=/opt/kernels PYTHONUNBUFFERED=1
USER releaf
# Compiled here, for the kind of processor that builds the image, so that no request waits for it.
RUN releaf warmup
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["releaf"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--store", "/data/releaf.db"]
