# The command line: docker run --rm -v "$PWD:/models" regauge diff original converted
FROM python:3.12-slim-bookworm AS build
COPY . /source
WORKDIR /source
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends cmake g++ libcli11-dev libcurl4-openssl-dev libeigen3-dev libfmt-dev ninja-build nlohmann-json3-dev \
 && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir -r tools/wheel-requirements.txt && tools/build_wheel.sh /wheels

FROM python:3.12-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libcurl4 && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -rf /wheels && useradd --create-home --uid 1000 regauge
USER 1000
WORKDIR /models
ENTRYPOINT ["regauge"]
CMD ["--help"]
