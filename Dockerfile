# A small image with the command podium: docker build -t podium . && docker run --rm -v "$PWD:/data" podium train glyphs
# See docs/installing.md. The first stage builds the Debian package, the second only installs it.
FROM debian:12-slim AS build
WORKDIR /podium
COPY scripts/ scripts/
COPY cmake/PodiumVersions.cmake cmake/
RUN scripts/install-dependencies.sh build package && rm -rf /var/lib/apt/lists/*
COPY . .
RUN scripts/package.sh

FROM debian:12-slim
# No versions are given: the package names the libraries that it was linked with.
# hadolint ignore=DL3008
RUN --mount=type=bind,from=build,source=/podium/build-package/packages,target=/packages \
    apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates /packages/podium_*.deb && \
    rm -rf /var/lib/apt/lists/* && \
    useradd --uid 1000 --create-home podium && \
    install -d -o podium -g podium /data
USER 1000
WORKDIR /data
ENTRYPOINT ["podium"]
CMD ["--help"]
