# The service of one model: docker build -t cbdl-serve . && docker run -p 8000:8000 -v ./model:/model:ro -e CBDL_TOKEN cbdl-serve
FROM python:3.11-slim-bookworm AS build
WORKDIR /source
RUN python -m venv /opt/cbdl
# The processor's torch, without gigabytes of CUDA; what changes least comes first.
COPY constraints.txt ./
RUN torch="$(grep '^torch==' constraints.txt)" \
    && /opt/cbdl/bin/pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "$torch"
COPY pyproject.toml README.md LICENSE THIRD_PARTY.md ./
COPY src ./src
RUN /opt/cbdl/bin/pip install --no-cache-dir -c constraints.txt ".[serve]"

FROM python:3.11-slim-bookworm
COPY --from=build /opt/cbdl /opt/cbdl
RUN useradd --no-create-home --uid 10001 cbdl
USER 10001
ENV PATH=/opt/cbdl/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
# Without CBDL_TOKEN it refuses to start: the address is public.
ENTRYPOINT ["cbdl", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
