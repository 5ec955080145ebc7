# syntax=docker/dockerfile:1
# `docker buildx build --platform linux/amd64,linux/arm64 --build-arg REVISION=$(git rev-parse HEAD) .`
# Each platform builds for itself: ring holds C and assembler, so that crossing over would take a C compiler for each.

FROM rust:1.95.0-bookworm AS build
ARG TARGETARCH
# The image's own toolchain, whatever rust-toolchain.toml would have it fetch besides.
ENV RUSTUP_TOOLCHAIN=1.95.0 \
    CARGO_TERM_COLOR=never
WORKDIR /build
# Tests are not built, but the manifest names them.
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY tests tests
# Dependencies stay in the caches from build to build; the program is taken out, because what is in a cache is not in the image.
RUN --mount=type=cache,target=/usr/local/cargo/registry,id=registry \
    --mount=type=cache,target=/build/target,id=target-$TARGETARCH \
    cargo build --release --locked --bin garm-operator \
    && install -D -m 0755 target/release/garm-operator /out/manager

# glibc, libgcc and CA certificates, no shell; the user is 65532.
FROM gcr.io/distroless/cc-debian12:nonroot
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="garm-operator" \
      org.opencontainers.image.description="Kubernetes operator and admission webhook for GARM" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY LICENSE /LICENSE
# Where the Go operator's manifests look for it.
COPY --from=build /out/manager /manager
# By number, as `runAsNonRoot` asks for.
USER 65532:65532
EXPOSE 8080 8081 9443
ENTRYPOINT ["/manager"]
