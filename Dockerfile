# make docker-build lays out the files first, in bin/image: the very files that make image puts into
# its image without an engine. So the result doesn't depend on a base image or on the builder.
FROM scratch
ARG TARGETARCH
ARG VERSION=dev
LABEL org.opencontainers.image.title="chartgate" \
      org.opencontainers.image.source="https://github.com/chartgate/chartgate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
# Certificate authorities, for charts from https repositories and registries.
COPY bin/image/linux-${TARGETARCH}/etc/ /etc/
COPY bin/image/linux-${TARGETARCH}/helm-charts/ /helm-charts/
COPY bin/image/linux-${TARGETARCH}/watches.yaml /watches.yaml
COPY bin/image/linux-${TARGETARCH}/manager /manager
# Chart paths in watches.yaml are relative to the working directory. /tmp is the only
# folder that is written to; the Deployment mounts an emptyDir there.
WORKDIR /
ENV HOME=/tmp
USER 65532:65532
ENTRYPOINT ["/manager"]
