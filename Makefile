# Everything that is done with this repository. `make help` lists it.
SHELL := /bin/bash
GO ?= go
# NVML's header marks calls as deprecated that its binding has all the same.
export CGO_CFLAGS ?= -O2 -Wno-deprecated-declarations
LDFLAGS := -s -w
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.6.2
# ./... leaves out all folders named testdata.
PACKAGES := ./... $(shell find . -path '*/testdata/*' -name '*.go' ! -name tools.go -printf '%h\n' | sort -u)
MODULES := $(shell find . -name go.mod -printf '%h ')
# Most tests on real parts wait for most of their time, so many wait side by side.
SIDE_BY_SIDE ?= -p 4 -parallel 6
FUZZTIME ?= 30s

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## show four simulated GB200 NVL72 racks; needs nothing but Go
	@CGO_ENABLED=0 $(GO) run ./cmd/quoin demo

.PHONY: build
build: ## build bin/quoin and bin/quoin-hook
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/quoin ./cmd/quoin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/quoin-hook ./cmd/quoin-hook

.PHONY: image
image: ## write bin/quoin-VERSION-ARCH.tar for amd64 and arm64, an OCI archive each, with its contents (SPDX)
	cd manifests/image && $(GO) run .

.PHONY: deb
deb: ## write bin/quoin_VERSION_ARCH.deb for amd64 and arm64, for machines without Kubernetes
	cd manifests/image && $(GO) run . -deb

.PHONY: setup
setup: ## install and build what the tests need: a real Slurm, Kubernetes, Prometheus and Chromium
	testdata/setup.sh
	$(GO) run ./testdata/rig/slurmrig/build
	$(GO) run ./testdata/rig/kuberig/build
	$(GO) run ./testdata/rig/promrig/build

.PHONY: test
test: setup ## set up and run all tests, those on real parts too
	$(GO) test -vet=off $(SIDE_BY_SIDE) -skip '^TestBox' -timeout 30m $(PACKAGES)

.PHONY: short
short: ## run the tests that need no other program
	$(GO) test -short $(PACKAGES)

.PHONY: race
race: ## run the short tests under the race detector
	$(GO) test -race -short $(PACKAGES)

.PHONY: fuzz
fuzz: ## fuzz every parser for FUZZTIME (30s) each
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done

.PHONY: bench
bench: ## measure every figure that the README gives
	$(GO) test -run '^$$' -bench . -benchmem ./...

SCALE ?=

.PHONY: bench-scale
bench-scale: setup ## run the publisher on 10,008 nodes of a real API server; SCALE="-racks 20 -flap 30s" for less
	$(GO) run ./testdata/scale $(SCALE)

.PHONY: screenshots
screenshots: ## draw the page in Chromium into bin/screenshots, and the two pictures of the documentation
	testdata/setup.sh
	$(GO) run ./testdata/screenshots
	cp bin/screenshots/page.png bin/screenshots/page-jobs.png topology/picture/

.PHONY: lint
lint: ## run golangci-lint
	$(GO) run $(GOLANGCI) run $(PACKAGES)

DIGESTS := find . -type f -not -path './.git/*' -not -path './bin/*' -exec sha256sum {} + | sort -k 2

.PHONY: generate
generate: ## write the generated files again
	$(GO) generate ./...

# go generate takes the files of this moment, committed or not, and must not change any.
.PHONY: verify
verify: ## format, vet, tidy, generated files, lint
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet $(PACKAGES)
	@for m in $(MODULES); do echo "go mod tidy -diff in $$m"; (cd $$m && $(GO) mod tidy -diff) || exit 1; done
	@before=$$($(DIGESTS)); $(MAKE) --no-print-directory generate; diff <(echo "$$before") <($(DIGESTS)) || \
		{ echo "generated files were not current: commit what make generate has written"; exit 1; }
	$(MAKE) --no-print-directory lint

.PHONY: e2e
e2e: setup box ## run the tests on real parts alone, and the box
	$(GO) test $(SIDE_BY_SIDE) -timeout 30m -run '^TestReal' $(PACKAGES)

.PHONY: box
box: ## install Quoin on a Kubernetes with Slinky's operator and as a Debian package, all on this machine
	testdata/setup.sh box
	$(GO) run ./testdata/rig/boxrig/build
	$(GO) test -vet=off -v -timeout 30m -run '^TestBox' ./testdata/e2e ./testdata/rig/boxrig/...
