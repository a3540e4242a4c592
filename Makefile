# `make` alone lists what there is. What needs a broker finds one by scripts/brokers.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# How long each fuzz target runs.
FUZZTIME ?= 10s
# What the statement coverage of the main packages together must reach, in per cent.
COVERAGE ?= 85

covered := ./retry,./topology,./provision,./consumer
linters := .cache/lint
sources := $(shell git ls-files -co --exclude-standard '*.go' '*.yaml' '*.txtar' go.mod)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-6s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## start a broker, provision topology.yaml, run examples/orders, show what happened
	go build -o bin/ ./cmd/rmq-provision ./examples/orders
	scripts/brokers demo bin/orders demo

.PHONY: test
test: ## everything: unit, race, integration against real brokers
	@command -v $${CC:-gcc} >/dev/null || scripts/install gcc libc6-dev
	CGO_ENABLED=1 scripts/brokers test go test -race -shuffle=on -timeout 15m \
		-covermode=atomic -coverpkg=$(covered) -coverprofile=cover.out ./... || { rm -f cover.out; exit 1; }

.PHONY: cover
cover: cover.out ## statement coverage of retry, topology, provision and consumer together
	@go tool cover -func=cover.out | awk -v least=$(COVERAGE) \
		'{print} /^total:/ {sub("%", "", $$3); if ($$3 + 0 < least) {printf "coverage is %s %%, at least %s %% are needed\n", $$3, least; exit 1}}'

cover.out: $(sources)
	$(MAKE) test

.PHONY: lint
lint: $(linters)/done ## format, vet, staticcheck, the house style, the scripts
	@bad=$$($(linters)/gofumpt -l .); [ -z "$$bad" ] || { echo "not formatted (gofumpt -w):"; echo "$$bad"; exit 1; }
	for module in . tools bench; do go -C $$module vet ./...; go -C $$module mod tidy -diff; done
	for module in . tools bench; do (cd $$module && $(CURDIR)/$(linters)/staticcheck ./...); done
	$(linters)/shape
	go -C tools test ./...
	@command -v shellcheck >/dev/null || scripts/install shellcheck
	shellcheck -x -P SCRIPTDIR .ci/run $$(git ls-files -co --exclude-standard scripts)

$(linters)/done: tools/go.mod tools/go.sum $(wildcard tools/*/*.go)
	mkdir -p $(linters)
	cd tools && GOBIN=$(CURDIR)/$(linters) go install tool ./shape
	touch $@

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## benchmarks; consumer beside the bare client library, as a ratio
	go test -run '^$$' -bench . -benchmem ./...
	go -C bench build -o ../bin/ ./throughput
	scripts/brokers bench bin/throughput
