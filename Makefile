# Copyright The Chartgate Authors.
# SPDX-License-Identifier: Apache-2.0

# The version lives in one file. IMG is the operator's image, for the targets that build or deploy it.
VERSION ?= $(shell cat VERSION)
IMG ?= ghcr.io/chartgate/chartgate:v$(VERSION)

# The images of the bundle and the catalog that OLM installs it from.
BUNDLE_IMG ?= ghcr.io/chartgate/chartgate-bundle:v$(VERSION)
CATALOG_IMG ?= ghcr.io/chartgate/chartgate-catalog:v$(VERSION)
# Tests of the bundle that operator-sdk scorecard runs.
SCORECARD_IMG ?= ghcr.io/chartgate/chartgate-scorecard:v$(VERSION)
# What serves the catalog.
OPM_IMG ?= quay.io/operator-framework/opm:v1.73.0

# What deploy installs: config/default, or config/namespaced for an operator with rights in one namespace only.
OVERLAY ?= config/default
# The namespace the operator runs in.
NAMESPACE ?= chartgate-system
# A Secret of that namespace to pull the operator's image with, if it takes one.
PULL_SECRET ?=
CONTAINER_TOOL ?= docker

comma := ,
SHELL = /usr/bin/env bash -o pipefail
.SHELLFLAGS = -ec

LOCALBIN := $(CURDIR)/bin

# All that is not under the race detector is built with the image's flags, so that the libraries are compiled once.
export GOFLAGS := $(strip -trimpath $(GOFLAGS))
export CGO_ENABLED := 0

# The tools, each at an exact version and built from source into bin/ when a target needs it.
CONTROLLER_GEN_VERSION := v0.21.0
KUSTOMIZE_VERSION := v5.8.1
HELM_VERSION := $(shell awk '$$1 == "helm.sh/helm/v3" { print $$2 }' go.mod)
GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.9.0
CYCLONEDX_GOMOD_VERSION := v1.10.0

CONTROLLER_GEN := $(LOCALBIN)/controller-gen-$(CONTROLLER_GEN_VERSION)
KUSTOMIZE := $(LOCALBIN)/kustomize-$(KUSTOMIZE_VERSION)
HELM := $(LOCALBIN)/helm-$(HELM_VERSION)
GOLANGCI_LINT := $(LOCALBIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
GOVULNCHECK := $(LOCALBIN)/govulncheck-$(GOVULNCHECK_VERSION)
OPERATOR_SDK := $(LOCALBIN)/operator-sdk
OPM := $(LOCALBIN)/opm
CYCLONEDX_GOMOD := $(LOCALBIN)/cyclonedx-gomod-$(CYCLONEDX_GOMOD_VERSION)
# kubectl of this machine, or else one built with the test cluster.
KUBECTL ?= $(or $(shell command -v kubectl 2>/dev/null),$(LOCALBIN)/kubectl)

.PHONY: all
all: build

##@ General

# The ## comments are the help: "##@" starts a group, "##" after a target describes it.
.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"; printf "\nUsage:\n  make \033[36m<target>\033[0m\n"} /^[a-zA-Z_0-9-]+:.*?##/ { printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2 } /^##@/ { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) } ' $(firstword $(MAKEFILE_LIST))

##@ Try it

.PHONY: demo
demo: ## Everything in one go, on a cluster of its own: install, change, repair, delete. KEEP=1 leaves it running.
	@KEEP="$(KEEP)" go run ./test/demo

.PHONY: demo-down
demo-down: ## Stop what demo KEEP=1 left running.
	@go run ./test/demo --stop

.PHONY: cluster-up
cluster-up: ## Start a Kubernetes control plane with two simulated nodes on this machine, in .cluster. REAL=1: with a real node (Linux, root).
	@$(if $(REAL),hack/e2e-deps.sh)
	@go run ./test/controlplane/cmd/cluster up --dir .cluster --controllers $(if $(REAL),--real,--nodes 2)

.PHONY: cluster-down
cluster-down: ## Stop it again.
	@go run ./test/controlplane/cmd/cluster down --dir .cluster

##@ Development

.PHONY: generate
generate: controller-gen ## Generate DeepCopy methods.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: controller-gen kustomize ## Generate the CRDs and set the version in the manifests.
	$(CONTROLLER_GEN) crd paths=./api/base output:crd:dir=internal/chartgen/base
	$(CONTROLLER_GEN) crd paths=./api/v1alpha1 output:crd:dir=config/crd/bases
	go run ./cmd/chartgen crd --chart helm-charts/guestbook --kind Guestbook --short-name gb --output config/crd/bases
	go run ./cmd/chartgen rbac --watches watches.yaml --sample config/samples --crds config/crd/bases \
	  --resource ServiceMonitor.monitoring.coreos.com=servicemonitors --output config/rbac --strict
	cd config/manager && $(KUSTOMIZE) edit set image controller=ghcr.io/chartgate/chartgate:v$$(cat ../../VERSION)

.PHONY: fmt
fmt: ## Format the code.
	go fmt ./...

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

.PHONY: lint
lint: golangci-lint ## Run golangci-lint.
	$(GOLANGCI_LINT) run

.PHONY: lint-fix
lint-fix: golangci-lint ## Run golangci-lint and mend what it can.
	$(GOLANGCI_LINT) run --fix

# The race detector makes a test several times as long. All that runs in this process runs under it: the
# units, and of the integration tests those in which an operator does much at once.
RACE_PACKAGES := ^github.com/chartgate/chartgate/(api|internal)(/|$$)
RACE_TESTS := ReleaseFollows|DriftIsRepaired|RestartContinues|ResourcesThatDiffer|ChartsWithTheTraits|HelmRollbackIs|HelmUpgradeAnd|GateOfEachType|GateEventWakes|ApprovalShowsThePlan|ReplicaThatDoesNotLead|IdleResources|WebAppLifecycle|DatabaseLifecycle
TESTFLAGS ?=
# What takes longest starts first.
LONG_TESTS := ./test/integration ./test/chaos

# The others wait for most of their time: more packages at once than there are processors.
# go vet is among the linters; here it would go through all libraries first.
.PHONY: test
test: controlplane helm ## Run all tests: unit tests, and integration tests against a real API server.
	@status=0; \
	units="$$(go list ./... | grep -E '$(RACE_PACKAGES)')"; \
	rest="$(LONG_TESTS) $$(go list ./... | grep -vE '$(RACE_PACKAGES)|/test/(integration|chaos)$$')"; \
	CGO_ENABLED=1 go test -race -vet=off -timeout 20m $(TESTFLAGS) $$units || status=1; \
	go test -p 3 -vet=off -timeout 20m $(TESTFLAGS) $$rest || status=1; \
	CGO_ENABLED=1 go test -race -vet=off -timeout 20m -run '^Test.*($(RACE_TESTS))' $(TESTFLAGS) ./test/integration || status=1; \
	exit $$status

.PHONY: e2e
e2e: helm ## Install it as people do, with OLM on a cluster with a real node. Linux, root.
	hack/e2e-deps.sh --with-buildah
	go test -tags e2e -vet=off -timeout 45m -count=1 $(TESTFLAGS) ./test/e2e

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver and the rest of the test cluster into the user's cache (once). ALL=1: a real node's and OLM's programs too.
	@go run ./test/controlplane/cmd/cluster build $(if $(ALL),--all)

.PHONY: verify
verify: ## Regenerate everything and fail if that changes a file; check the modules.
	@hack/verify.sh

.PHONY: vulncheck
vulncheck: govulncheck ## Look for known vulnerabilities (asks the Go vulnerability database).
	$(GOVULNCHECK) ./...

##@ Build

BINARIES := $(patsubst cmd/%/main.go,bin/%,$(wildcard cmd/*/main.go))

.PHONY: build
build: $(BINARIES) ## Build the binaries into bin/.

.PHONY: $(BINARIES)
$(BINARIES): bin/%:
	go build -ldflags "-X github.com/chartgate/chartgate/internal/app.Version=v$(VERSION)" -o $@ ./cmd/$*

.PHONY: run
run: ## Run the manager on this machine against the current kubeconfig. ARGS= adds flags.
	go run ./cmd/manager --watches-file watches.yaml --metrics-bind-address 0 --health-probe-bind-address 127.0.0.1:8081 $(ARGS)

# What the image is built for, by Go's names. More than one, separated by commas, are pushed as one index.
ARCHS ?= $(shell go env GOARCH)
# PUSH=1 pushes what image and bundle-image build.
PUSH ?=
PUSH_FLAG = $(if $(PUSH),--push)

.PHONY: image
image: cyclonedx-gomod ## Build the operator's image without a container engine, and its SBOM, into bin/image. IMG, ARCHS, PUSH=1.
	go run ./hack/image --version v$(VERSION) --name $(IMG) --arch $(ARCHS) $(PUSH_FLAG)
	@for arch in $$(tr ',' ' ' <<< "$(ARCHS)"); do \
	  $(CYCLONEDX_GOMOD) bin -json -std -noserial -notimestamp -version v$(VERSION) \
	    -output bin/image/chartgate-linux-$$arch.cdx.json bin/image/manager-linux-$$arch; \
	  echo "bin/image/chartgate-linux-$$arch.cdx.json: SBOM of $$(grep -c '"purl"' bin/image/chartgate-linux-$$arch.cdx.json) Go modules"; \
	done

.PHONY: image-reproducible
image-reproducible: ## Build the image twice, the second time from a copy elsewhere, and fail unless both have one digest. COLD=1 compiles all anew.
	@VERSION=$(VERSION) COLD="$(COLD)" hack/image-reproducible.sh

.PHONY: image-compare
image-compare: ## Build the Dockerfile with buildah, and fail unless that gives the same files as make image. Root only.
	@VERSION=$(VERSION) hack/compare-image.sh

.PHONY: docker-build
docker-build: ## Build the operator's image, IMG, with a container engine: the same files as make image.
	go run ./hack/image --version v$(VERSION) --arch $(firstword $(subst $(comma), ,$(ARCHS))) --stage-only
	$(CONTAINER_TOOL) build --platform linux/$(firstword $(subst $(comma), ,$(ARCHS))) \
	  --build-arg TARGETARCH=$(firstword $(subst $(comma), ,$(ARCHS))) --build-arg VERSION=v$(VERSION) -t $(IMG) .

.PHONY: docker-push
docker-push: ## Push the operator's image, IMG.
	$(CONTAINER_TOOL) push $(IMG)

# Prints the manifests that deploy applies.
RENDER = KUSTOMIZE=$(KUSTOMIZE) hack/render.sh --overlay $(OVERLAY) --namespace $(NAMESPACE) --image $(IMG) --pull-secret "$(PULL_SECRET)"

.PHONY: build-installer
build-installer: kustomize ## Write dist/install.yaml: all it takes to install IMG with kubectl alone.
	@mkdir -p dist
	$(RENDER) > dist/install.yaml

##@ Operator Lifecycle Manager

# Where the bundle is written. make verify keeps bundle/ as it is generated, with the image by its tag.
BUNDLE_DIR ?= bundle
# true: name the operator's image by the digest that make image wrote to bin/image/digest, as a release does:
#   make image bundle bundle-image catalog ARCHS=amd64,arm64 USE_IMAGE_DIGESTS=true BUNDLE_DIR=bin/bundle PUSH=1
USE_IMAGE_DIGESTS ?= false
# The bundle that release-check compares with: the version before.
PREVIOUS_BUNDLE ?= test/e2e/testdata/bundle-v0.0.9

.PHONY: bundle
bundle: manifests operator-sdk ## Generate the bundle. IMG, BUNDLE_DIR, USE_IMAGE_DIGESTS=true.
	go run ./hack/bundle --kustomize $(KUSTOMIZE) --operator-sdk $(OPERATOR_SDK) --version $(VERSION) --image $(IMG) --output $(BUNDLE_DIR) \
	  $(if $(filter bundle,$(BUNDLE_DIR)),--dockerfile bundle.Dockerfile) $(if $(filter true,$(USE_IMAGE_DIGESTS)),--image-digest-from bin/image/digest)

.PHONY: bundle-validate
bundle-validate: operator-sdk ## Check the bundle as OperatorHub and the community operators do, and by the scorecard tests of hack/scorecard. BUNDLE_DIR.
	go run ./hack/bundle --operator-sdk $(OPERATOR_SDK) --validate --output $(BUNDLE_DIR)
	go run ./hack/scorecard --bundle $(BUNDLE_DIR) --all

.PHONY: scorecard-image
scorecard-image: ## Build the image of the scorecard tests, SCORECARD_IMG, without a container engine, into bin/scorecard-image. ARCHS, PUSH=1.
	go run ./hack/scorecard --build-image $(SCORECARD_IMG) --arch $(ARCHS) $(PUSH_FLAG)

.PHONY: scorecard
scorecard: operator-sdk ## Run operator-sdk scorecard on the bundle, in the current kubeconfig's cluster. BUNDLE_DIR.
	$(OPERATOR_SDK) scorecard $(BUNDLE_DIR) --pod-security restricted --wait-time 3m

.PHONY: bundle-image
bundle-image: ## Build the bundle's image, BUNDLE_IMG, without a container engine, into bin/bundle-image. BUNDLE_DIR, PUSH=1.
	go run ./hack/bundle --output $(BUNDLE_DIR) --build-image $(BUNDLE_IMG) --image-output bin/bundle-image $(PUSH_FLAG)

.PHONY: release-check
release-check: ## Refuse a bundle that resources of the version before would not survive. BUNDLE_DIR, PREVIOUS_BUNDLE.
	go run ./hack/releasecheck --previous $(PREVIOUS_BUNDLE) --current $(BUNDLE_DIR)

.PHONY: catalog
catalog: $(OPM) ## Compose and check a file-based catalog in bin/catalog. BUNDLE_DIR, BUNDLE_IMG, USE_IMAGE_DIGESTS=true.
	@image="$(BUNDLE_IMG)"; if [ "$(USE_IMAGE_DIGESTS)" = true ]; then image="$${image%:*}@$$(cat bin/bundle-image/digest)"; fi; \
	go run ./hack/catalog --opm $(OPM) --output bin/catalog --bundle "$(BUNDLE_DIR)=$$image"
	@rm -f bin/catalog.Dockerfile; $(OPM) generate dockerfile bin/catalog --base-image $(OPM_IMG) --builder-image $(OPM_IMG)

.PHONY: catalog-build
catalog-build: catalog ## Build the catalog's image, CATALOG_IMG, with a container engine, on top of opm's.
	$(CONTAINER_TOOL) build -f bin/catalog.Dockerfile -t $(CATALOG_IMG) bin

##@ Deployment (the current kubeconfig's cluster)

.PHONY: install
install: kustomize $(KUBECTL) ## Install the CRDs, and the ClusterRoles for people.
	$(KUSTOMIZE) build config/cluster | $(KUBECTL) apply --server-side -f -

.PHONY: uninstall
uninstall: kustomize $(KUBECTL) ## Remove them. Refuses while there are resources of theirs; FORCE=1 removes them as well.
	@FORCE="$(FORCE)" KUBECTL=$(KUBECTL) hack/check-unused.sh
	$(KUSTOMIZE) build config/cluster | $(KUBECTL) delete --ignore-not-found -f -

.PHONY: deploy
deploy: kustomize $(KUBECTL) ## Install CRDs and operator: IMG, OVERLAY, NAMESPACE, PULL_SECRET. (With config/namespaced: the operator only.)
	$(RENDER) | $(KUBECTL) apply --server-side -f -

.PHONY: undeploy
undeploy: kustomize $(KUBECTL) ## Remove them. Refuses while there are resources of theirs; FORCE=1 doesn't.
	@FORCE="$(FORCE)" ONLY_NAMESPACE=$(if $(findstring namespaced,$(OVERLAY)),$(NAMESPACE)) KUBECTL=$(KUBECTL) hack/check-unused.sh
	$(RENDER) | $(KUBECTL) delete --ignore-not-found -f -

##@ Tools

.PHONY: tools
tools: controller-gen kustomize helm golangci-lint govulncheck ## Install the pinned tools into bin/ (operator-sdk, the heavy one, has a target of its own).

# tool defines the target $(1), which puts package $(2) at version $(3) into bin/ under a name with
# the version and links the plain name to it.
define tool
.PHONY: $(1)
$(1): $(LOCALBIN)/$(1)-$(3)
	@ln -sf $(1)-$(3) $(LOCALBIN)/$(1)

$(LOCALBIN)/$(1)-$(3):
	@echo "Installing $(1) $(3) from source into bin/ (once)"
	@tmp="$$$$(mktemp -d)"; trap 'rm -rf "$$$$tmp"' EXIT; \
	GOBIN="$$$$tmp" go install $(2)@$(3); \
	mkdir -p $(LOCALBIN); mv -f "$$$$tmp/$(1)" $$@
endef

$(eval $(call tool,controller-gen,sigs.k8s.io/controller-tools/cmd/controller-gen,$(CONTROLLER_GEN_VERSION)))
$(eval $(call tool,kustomize,sigs.k8s.io/kustomize/kustomize/v5,$(KUSTOMIZE_VERSION)))
$(eval $(call tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_LINT_VERSION)))
$(eval $(call tool,govulncheck,golang.org/x/vuln/cmd/govulncheck,$(GOVULNCHECK_VERSION)))
$(eval $(call tool,cyclonedx-gomod,github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod,$(CYCLONEDX_GOMOD_VERSION)))

# The helm of the version, and of the libraries, that the operator has within.
.PHONY: helm
helm: $(HELM)
	@ln -sf $(notdir $(HELM)) $(LOCALBIN)/helm

$(HELM):
	go build -ldflags "-X helm.sh/helm/v3/internal/version.version=$(HELM_VERSION)" -o $@ helm.sh/helm/v3/cmd/helm

# operator-sdk, opm and kubectl are built with the test cluster's programs, of the same libraries: bin/ has links to them.
link_program = mkdir -p $(LOCALBIN); ln -sf "$$(go run ./test/controlplane/cmd/cluster build --print $(1))" $(LOCALBIN)/$(1)

.PHONY: operator-sdk
operator-sdk: ## Install operator-sdk into bin/ (takes minutes).
	@$(call link_program,$@)

$(LOCALBIN)/opm $(LOCALBIN)/kubectl:
	@$(call link_program,$(@F))
