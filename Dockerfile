# BUILDER may be any image with the Go toolchain that go.mod asks for and CA certificates.
ARG BUILDER=golang:1.26

FROM ${BUILDER} AS builder
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=dev
WORKDIR /workspace

# Modules change seldom: a layer of their own.
COPY go.mod go.sum ./
RUN go mod download

COPY api/ api/
COPY cmd/ cmd/
COPY internal/ internal/
# timetzdata: the final image has no time zone files.
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -buildvcs=false -tags timetzdata \
    -ldflags "-s -w -X github.com/chartgate/chartgate/internal/app.Version=${VERSION}" -o manager ./cmd/manager

FROM scratch
# For charts from https repositories and registries.
COPY --from=builder /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY helm-charts/ /helm-charts/
COPY watches.yaml /watches.yaml
COPY --from=builder /workspace/manager /manager
# Chart paths in watches.yaml are relative to the working directory. /tmp is the only
# folder that is written to; the Deployment mounts an emptyDir there.
WORKDIR /
ENV HOME=/tmp
USER 65532:65532
ENTRYPOINT ["/manager"]
