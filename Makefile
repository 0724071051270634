# Everything that is done with this repository. `make help` lists it.
SHELL := /bin/bash
export GO ?= go
# NVML's header marks calls as deprecated that its binding has all the same.
export CGO_CFLAGS ?= -O2 -Wno-deprecated-declarations
LDFLAGS := -s -w
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.6.2
# The folder test comes first: test/e2e/node takes long, and no long package is to run alone at the end.
PACKAGES := ./test/... ./...
MODULES := $(shell find . -name go.mod -printf '%h ')
# How many packages, and tests of a package, run at once, if not as many as the cores bear: "-p 1 -parallel 1" for one.
SIDE_BY_SIDE ?=
FUZZTIME ?= 30s
# A target looks for its tools before it works for minutes.
NEED = @testdata/need.sh "make $@"

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## show four simulated GB200 NVL72 racks; needs nothing but Go, and compiles for a minute the first time
	$(NEED) go
	@[ -e bin/quoin-demo ] || echo "compiling the demo: the first time this takes about a minute on two slow cores, later some seconds" >&2
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -ldflags "$(LDFLAGS)" -o bin/quoin-demo ./cmd/quoin-demo
	@bin/quoin-demo

.PHONY: build
build: ## build bin/quoin and bin/quoin-hook; needs gcc, and compiles for minutes the first time
	$(NEED) go gcc
	@[ -e bin/quoin ] || echo "compiling with gcc for NVML: the first time this takes about four minutes on two slow cores, later some seconds" >&2
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/quoin ./cmd/quoin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/quoin-hook ./cmd/quoin-hook

.PHONY: image
image: ## write bin/quoin-VERSION.tar, an OCI archive for amd64 and arm64, and its contents (SPDX); ARCH=arm64 for that one alone
	@manifests/image/make.sh image $(ARCH)

.PHONY: push
push: ## push the image that make image has written to a registry: TO=REGISTRY/quoin; FROM=bin/release for that of make release
	$(NEED) go tar
	@[ -n "$(TO)" ] || { echo "make push: say where to: make push TO=REGISTRY/quoin" >&2; exit 1; }
	@cd manifests/image && $(GO) run . -out "$(or $(FROM),bin)" -push "$(TO)"

.PHONY: packages
packages: ## write Debian packages and RPMs into bin, for machines without Kubernetes, for amd64 and arm64; ARCH=arm64 for that one alone
	@manifests/image/make.sh packages $(ARCH)

.PHONY: release
release: ## write all files of a release into bin/release, for amd64 and arm64, from a tree without changes; the same commit gives the same bytes
	@manifests/image/make.sh release

.PHONY: setup
setup: ## install and build what the tests need: a real Slurm, Kubernetes, Prometheus and Chromium; needs Debian and root
	testdata/setup.sh $(WITH)
	@$(GO) run ./test/tools/run -setup $(WITH)

.PHONY: test
test: ## set up and run all tests but the box; SIDE_BY_SIDE="-p 1 -parallel 1" for one test at a time
	testdata/setup.sh
	@$(GO) run ./test/tools/run $(SIDE_BY_SIDE) -skip '^TestBox' $(PACKAGES)

# The packages that compare random cases with something real, or with a reference.
ORACLES = $(shell grep -rl --include='*_test.go' test/rig/oracle . | xargs -n 1 dirname | sort -u)

.PHONY: oracle
oracle: ## set up and run the tests with random cases whole, with another seed each time; QUOIN_TEST_SEED=N repeats one
	testdata/setup.sh
	@QUOIN_ORACLE=whole $(GO) run ./test/tools/run $(SIDE_BY_SIDE) -skip '^TestBox' $(ORACLES)

.PHONY: short
short: ## run the tests that need Go and gcc alone
	$(NEED) go gcc
	$(GO) test -short $(PACKAGES)

.PHONY: race
race: ## run the short tests under the race detector
	$(NEED) go gcc
	$(GO) test -race -short $(PACKAGES)

.PHONY: fuzz
fuzz: ## fuzz every parser for 30 seconds each; FUZZTIME=5m for longer
	$(NEED) go gcc
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done

.PHONY: bench
bench: setup ## set up and measure the figures of FIGURES.md, except those of bench-scale and the box
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: compare
compare: ## measure the figures of Quoin and of bash scripts in the README's table, in three minutes; needs root
	$(NEED) go gcc
	$(GO) run ./test/tools/compare

SCALE ?=

.PHONY: bench-scale
bench-scale: setup ## set up and run the publisher on 10,008 nodes of a real API server; SCALE="-racks 20 -flap 30s" for less
	$(GO) run ./test/tools/scale $(SCALE)

.PHONY: screenshots
screenshots: ## draw the page in Chromium into bin/screenshots, and the two pictures of the documentation
	$(NEED) go gcc chromium fonts
	$(GO) run ./test/tools/screenshots
	cp bin/screenshots/page.png bin/screenshots/page-jobs.png topology/picture/

.PHONY: lint
lint: ## run golangci-lint, which is built first
	$(NEED) go gcc
	$(GO) run $(GOLANGCI) run $(PACKAGES)

DIGESTS := find . -type f -not -path './.git/*' -not -path './bin/*' -exec sha256sum {} + | sort -k 2

.PHONY: generate
generate: ## write the generated files again
	$(NEED) go gcc
	$(GO) generate ./...

# go generate takes the files of this moment, committed or not, and must not change any.
.PHONY: verify
verify: ## check format, vet, go.mod files, generated files and lint
	$(NEED) go gofmt gcc
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet $(PACKAGES)
	@for m in $(MODULES); do echo "go mod tidy -diff in $$m"; (cd $$m && $(GO) mod tidy -diff) || exit 1; done
	@before=$$($(DIGESTS)); $(MAKE) --no-print-directory generate; diff <(echo "$$before") <($(DIGESTS)) || \
		{ echo "generated files were not current: commit what make generate has written"; exit 1; }
	$(MAKE) --no-print-directory lint

.PHONY: e2e
e2e: WITH := box
e2e: setup box ## set up and run the tests on real parts alone, and the box
	@$(GO) run ./test/tools/run $(SIDE_BY_SIDE) -run '^TestReal' $(PACKAGES)

.PHONY: box
box: WITH := box
box: setup ## set up and install Quoin on a Kubernetes with Slinky's operator and as a Debian package, all on this machine
	$(GO) test -vet=off -v -timeout 60m -run '^TestBox' ./test/e2e ./test/rig/boxrig/...
