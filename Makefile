# `make help` lists the targets.
SHELL := /bin/bash
S ?= flash-sale-100k
PROFILE ?= quick
RUNFLAGS ?=
SEEDS ?= 50
FUZZTIME ?= 10s
GO ?= go
BIN := bin/stampede
# One kind of build, so that each package is compiled once for the command and its tests.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.2

.DEFAULT_GOAL := help
.PHONY: help build setup scenario gallery pages sample screenshot test-setup test test-others test-runs test-raced test-packages test-rest test-later test-systems test-all test-seeds test-containers test-swarm test-kubernetes test-report bench throughput fuzz lint gen images engine ci clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What go prints, a line for each module that it downloads, is shown if it fails.
build: ## Build bin/stampede
	@[ -x $(BIN) ] || echo 'downloading modules and building $(BIN), once'
	@said=$$($(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/stampede 2>&1) || \
		{ code=$$?; printf '%s\n' "$$said" >&2; exit $$code; }

setup: build ## Say what is missing here and install it (stampede doctor --fix)
	@$(BIN) doctor --fix

scenario: setup ## Run a scenario: make scenario S=flash-sale-100k PROFILE=quick
	@$(BIN) run $(S) --profile $(PROFILE) $(RUNFLAGS) || { code=$$?; \
		echo "exit code $$code: '$(BIN) help exit-codes' says what it means" >&2; exit $$code; }

test-setup: build
	@$(BIN) doctor --fix --tests

# The race detector makes a test several times slower. With it run the packages of the harness
# that share memory between goroutines, and of each system both ends of its API and each design
# without load; without it what computes, what draws pages, and whole runs, which make test-rest
# runs with it.
RACED := $(addprefix ./harness/,run fault deploy suttest load stores design telemetry api \
	api/apitest check history events interleave sut topics env env/processes env/admin) ./reports/ui
RACED_TESTS := ^Test(API|Conformance)

# Raced packages, whole runs, which mostly wait, and everything else run at the same time, in each
# the longest package first. P is how many packages of each are under way at once. What is under
# way may have stores of its own, in 1.5 GiB.
PLACES := $(or $(shell awk '/^MemAvailable/ { print int($$2 / 1572864) }' /proc/meminfo 2>/dev/null),3)
within = $(shell n=$$(( $(1) )); echo $$(( n < 1 ? 1 : n < $(2) ? n : $(2) )))
P ?= $(call within,$(PLACES) / 3,$(shell nproc))
AT_ONCE := $(call within,$(PLACES) / 2,2)
STORMS_AT_ONCE := $(call within,$(PLACES) - $(P),$(shell nproc))
# What tests make and drop, databases above all, is in memory where there is enough: nothing of
# it is measured. Scenarios of make test-rest have their stores on disk.
IN_MEMORY := $(shell [ "$(PLACES)" -ge 6 ] && \
	[ "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -1)" -gt 4000000 ] 2>/dev/null && \
	echo STAMPEDE_DATA_DIR=/dev/shm)

# Prints the seconds of each package and, in full, what a failed test printed. All that go test
# says is kept in bin, out of which longest prints the longest tests. Without a debugger's tables
# (-w) a package is linked in two thirds of the time.
GOTESTSUM := $(GO) run gotest.tools/gotestsum@v1.13.0
tests = $(GOTESTSUM) --format pkgname --format-hide-empty-pkg --hide-summary skipped \
	--jsonfile bin/tests-$(1).json -- -vet=off -ldflags=-w -count=1 -timeout 30m -p $(P)
longest = echo 'The longest tests:'; cat bin/tests-*.json | $(GOTESTSUM) tool slowest --num 10

# What takes long has fewer cases in make test, or none, and all in make test-rest;
# docs/testing.md lists it. SYSTEMS limits both to these systems.
FEWER := RAPID_CHECKS=10
RACED_SCENARIOS := flash-sale-payment-race|likes-spike|viral-video-skew|task-burst-9am|broker-throughput|reservation-rush|idempotency-retry-storm|checkout-launch|taskqueue-throughput|topk-moving|adclicks-burst|writeheavy-burst|positions-fleet|recents-devices|commentary-wicket|autocomplete-typing|crawler-wide|textsearch-catalog
ALL_SYSTEMS := $(filter-out internal,$(notdir $(patsubst %/,%,$(wildcard systems/*/))))
SYSTEMS ?= $(ALL_SYSTEMS)
STORMS := $(shell grep -lE "^system: ($$(echo $(SYSTEMS) | tr ' ' '|'))$$" \
	$$(grep -l '^side_by_side: true' scenarios/*.yaml) | sed 's|.*/||; s|\.yaml$$||' | paste -sd '|')
MUTANTS := ^TestMutantsOnStores$$
WHOLE := ^Test(Judges|Bubble|EveryOrder)$$|$(MUTANTS)
SCRIPTS_LATER := ^TestScripts$$/^store-(calibrate|disk|generators|external|keep|knee|replay|roles|several|together|interrupt-containers|roles-containers)$$
HAMMER := ^TestConformance/./^hammer$$
THREE_BROKERS := ^TestExercise$$/^ThreeBrokers$$|^TestARunOnThreeBrokers$$|^TestOneBrokerOfThree$$
LATER := ^Test(Guide|ReadmeCommands|Seeds)$$|$(SCRIPTS_LATER)

test: test-setup ## Run the tests, the store-backed ones included; SYSTEMS="likes views": of these systems
	@trap 'exit 130' INT TERM; rm -f bin/tests-*.json; code=0; \
	$(IN_MEMORY) $(BIN) lab --backend processes -- make --no-print-directory -k -j$(AT_ONCE) \
		test-raced test-others || code=1; \
	$(longest); exit $$code

# In the stores of one lab; tests that break their stores start their own, and so do storms, which
# begin beside the last raced packages. It is called as make, not as $$(MAKE), which make -n would
# run.
test-others:
	@trap 'exit 130' INT TERM; code=0; \
	MAKEFLAGS= make --no-print-directory -k -j$(AT_ONCE) test-runs test-packages || code=1; \
	$(call tests,storms) -parallel $(STORMS_AT_ONCE) -run '^TestScenarios$$/^($(STORMS))$$' ./scenarios || code=1; \
	exit $$code

test-runs:
	@$(call tests,runs) -p 1 -parallel 4 -skip '^TestScenarios$$|$(LATER)' ./cmd/stampede ./scenarios

test-raced:
	@trap 'exit 130' INT TERM; code=0; $(call tests,raced) -race -skip '$(THREE_BROKERS)' $(RACED) || code=1; \
	$(call tests,apis) -race -run '$(RACED_TESTS)' -skip '$(HAMMER)' $(SYSTEMS:%=./systems/%) || code=1; exit $$code

test-packages:
	@$(FEWER) $(call tests,packages) -skip '$(RACED_TESTS)|$(MUTANTS)|^TestEveryOrder$$/^right$$|^TestExercise$$' \
		$$($(GO) list ./... | grep -vxFf <($(GO) list ./cmd/stampede ./scenarios $(RACED) \
			$(patsubst %,./systems/%/...,$(filter-out $(SYSTEMS),$(ALL_SYSTEMS)))) | sort -r)

test-rest: test-later test-systems ## Run what make test leaves out, of all or of some systems

test-later: test-setup
	@trap 'exit 130' INT TERM; code=0; rm -f bin/tests-*.json; \
	$(call tests,later) -p 1 -parallel 4 -run '$(LATER)' ./cmd/stampede ./scenarios || code=1; \
	$(call tests,brokers) -p 1 -race -run '$(THREE_BROKERS)' ./harness/run ./harness/fault ./harness/env/processes || \
		code=1; \
	$(longest); exit $$code

test-systems: test-setup
	@trap 'exit 130' INT TERM; code=0; rm -f bin/tests-*.json; \
	of() { (cd scenarios && grep -lE "^system: ($$(echo $(SYSTEMS) | tr ' ' '|'))$$" *.yaml) | \
		sed 's/\.yaml$$//' | grep -vxE '$(STORMS)' | grep -xE "$$@" '$(RACED_SCENARIOS)' | paste -sd '|'; }; \
	if [ -n "$(strip $(SYSTEMS))" ]; then \
		$(IN_MEMORY) $(BIN) lab --backend processes -- $(call tests,whole) -run '$(WHOLE)' $(SYSTEMS:%=./systems/%) || code=1; \
		$(IN_MEMORY) $(BIN) lab --backend processes -- $(call tests,designs) -race -run ^TestConformance $(SYSTEMS:%=./systems/%) || code=1; \
		$(call tests,raced) -race -parallel 4 -run "^TestScenarios$$/^($$(of))$$" ./scenarios || code=1; \
		$(call tests,scenarios) -parallel 4 -run "^TestScenarios$$/^($$(of -v))$$" ./scenarios || code=1; \
	fi; \
	$(longest); exit $$code

test-all: test test-rest ## Run make test and make test-rest

# With fifty seeds the storms, which take most of the time, have fifty each; with fewer than ten
# they have none.
test-seeds: test-setup ## Storms and small scenarios with many seeds (SEEDS=50, four hours): a sound design is never judged wrong
	STAMPEDE_SEEDS=$(SEEDS) $(GO) test -run TestSeeds -count=1 -timeout 6h ./scenarios

# What takes its stores from STAMPEDE_TEST_BACKEND, which is processes in make
# test: the environment itself, tests of a system that break its stores, and scenarios
# whose faults work differently in containers. CI runs one without faults as a user does.
BREAKING := ^Test(RedisLoss|ReconcilerDecides)$$
CONTAINER_SCENARIOS := flash-sale-(redis-stall|redis-power-loss|postgres-crash)|likes-(cache-loss|worker-crash)|views-(consumer-crash|rebalance-storm)
test-containers: build ## Run the store-backed tests on containers, and stampede's own image (needs a docker engine)
	$(GO) test -count=1 -timeout 15m -run '^TestExercise$$' ./harness/env/containers
	STAMPEDE_TEST_BACKEND=containers $(GO) test -count=1 -timeout 25m ./harness/env/admin \
		./harness/env/envtest ./harness/env/external ./harness/fault ./harness/telemetry
	STAMPEDE_TEST_BACKEND=containers $(GO) test -count=1 -timeout 15m ./systems/flashsale \
		-run '$(BREAKING)'
	STAMPEDE_TEST_BACKEND=containers $(GO) test -count=1 -timeout 25m ./harness/run \
		-run '^TestARunOnThreeBrokers$$'
	STAMPEDE_TEST_BACKEND=containers $(GO) test -count=1 -timeout 30m -parallel 3 ./scenarios \
		-run '^TestScenarios$$/^($(CONTAINER_SCENARIOS))$$'
	STAMPEDE_TEST_BACKEND=containers $(GO) test -count=1 -timeout 5m ./cmd/stampede \
		-run 'TestScripts/store-external$$'
	docker/images.sh stampede
	$(GO) test -count=1 -timeout 5m -tags image -run '^TestImage' ./harness/env/containers
	STAMPEDE_REQUIRE_IMAGE=1 $(GO) test -count=1 -timeout 5m ./cmd/stampede \
		-run 'TestScripts/store-roles-containers$$'

test-swarm: ## Run several generators on a Docker Swarm of three nodes in network namespaces (needs root and dockerd)
	docker/swarm/test.sh

test-kubernetes: ## The same on a Kubernetes of one node, built from its modules once, for ten minutes (needs root and containerd)
	docker/kubernetes/test.sh

test-report: ## Open the report and the pages of ui in headless Chromium and check them
	$(GO) test -tags browser -timeout 10m ./reports/...
	$(GO) test -tags browser -timeout 5m -run Browser ./cmd/stampede

# How many messages or tasks the claims of make bench take place among, at most. Ten million
# of them are 4 GB, and take some minutes.
PENDING ?= 10000000
CLAIMS := STAMPEDE_PENDING=$(PENDING)

bench: setup ## Measure the workbench itself, as ratios to peers in the same run
	$(GO) test -run '^$$' -bench 'Dispatch|HTTP|Served' -benchtime 1x -timeout 20m ./harness/load
	$(GO) test -run '^$$' -bench Append ./harness/history
	$(GO) test -run '^$$' -bench 'Million|Summarise' -benchtime 1x ./harness/check ./harness/measure
	$(GO) test -run '^$$' -bench RoundTrip ./harness/fault
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 40m ./harness/sim
	$(GO) test -run '^$$' -bench HTML ./reports
	$(GO) test -tags browser -run '^$$' -bench FirstPaint -benchtime 10x ./reports
	$(GO) test -run '^$$' -bench 'Judge|UnitClaim|RedisLua' -benchtime 1x -timeout 20m ./systems/flashsale
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 20m ./systems/likes
	$(GO) test -run '^$$' -bench 'Pipeline|Restore|HotPartition' -benchtime 1x -timeout 20m ./systems/views
	$(CLAIMS) $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 40m ./systems/scheduler
	$(CLAIMS) $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 40m ./systems/sqlbroker
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 20m ./systems/internal/sketch
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 20m ./systems/topk
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 20m ./systems/autocomplete
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 20m ./systems/crawler
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 40m ./systems/textsearch/index
	STAMPEDE_PENDING=1000000 $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 40m ./systems/taskqueue
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 20m ./systems/writeheavy
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 20m ./systems/internal/walstream
	$(BIN) calibrate flashsale --out bin/calibration.yaml
	$(BIN) calibrate flashsale --held-out --out bin/calibration.yaml

# Where make throughput keeps its runs, what it varies and how long each load lasts.
THROUGHPUT ?= runs/throughput
WORKERS ?= 1 8 64
BATCHES ?= 1 10 100
LENGTH ?= 3s

throughput: build ## Compare brokers with 1, 10, 100 a batch and 1, 8, 64 publishers and consumers
	@set -e; runs=; for n in $(WORKERS); do for batch in $(BATCHES); do \
		to=$(THROUGHPUT)/$$n-with-$$batch; \
		$(BIN) run broker-throughput --seed 1 --out $$to --fail-on invariant \
			$(addprefix --design ,row_at_a_time batched partitioned listen_notify river) \
			--set load.arrival=null --set load.users=$$n --set load.duration=$(LENGTH) \
			--set params.workers=$$n --set params.batch=$$batch --set params.receive_batch=$$batch \
			--set params.poison=0 --set params.release=0.2 --set params.max_receives=2 \
			--set provokes=[] $(RUNFLAGS) || test $$? = 4; \
		runs="$$runs $$n-with-$$batch=$$to/broker-throughput/latest"; \
	done; done; \
	$(BIN) compare $$runs --html $(THROUGHPUT)/throughput.html

fuzz: ## Search for inputs that break a decoder, FUZZTIME=10s for each target
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' . | sort | \
	while IFS=: read -r file target; do \
		echo "$${target#func } in $${file%/*}"; \
		$(GO) test -run '^$$' -fuzz "^$${target#func }$$" -fuzztime $(FUZZTIME) "$${file%/*}" \
			</dev/null || exit 1; \
	done

lint: ## Static checks (golangci-lint, pinned)
	$(GO) run $(GOLANGCI) run --timeout 40m ./...

gen: ## Write the generated files again
	$(GO) run ./cmd/gen
	UPDATE_SCHEMA=1 $(GO) test -run '^TestSchemaIsCurrent$$' -count=1 \
		./harness/events ./harness/knee ./harness/rundir ./reports/... ./scenarios
	UPDATE_OPENAPI=1 $(GO) test -run '^TestAPI$$' -count=1 ./systems/...
	UPDATE_README=1 $(GO) test -run TestReadmeTables -count=1 ./cmd/stampede

gallery: setup ## Sample reports of every kind in gallery/, with a page over them (some minutes)
	@docs/samples/gallery.sh gallery

PAGES := $(CURDIR)/gallery/pages
pages: setup ## Run every scenario small and look at each page in all themes and widths (an hour; needs Chromium)
	@for scenario in scenarios/*.yaml; do \
		$(BIN) run "$$(basename "$$scenario" .yaml)" --profile smoke --seed 1 --fail-on none \
			--format plain --out $(PAGES) $(RUNFLAGS) || [ $$? -le 4 ] || exit 1; \
	done
	STAMPEDE_PAGES=$(PAGES) $(GO) test -tags browser -count=1 -timeout 30m -run '^TestPages$$' ./reports

sample: setup ## Run the README's first command and write what it prints into the README
	@$(BIN) run flash-sale-100k --profile quick --seed 1
	UPDATE_README=1 STAMPEDE_SAMPLE=$(CURDIR)/runs/flash-sale-100k/latest $(GO) test -count=1 \
		-run '^TestReadmeSample$$' ./cmd/stampede

SHOT := $(CURDIR)/gallery/screenshot
screenshot: setup ## Take the README's pictures anew, in docs/images, and their alt text (needs Chromium)
	@docs/samples/failing-server.sh $(SHOT)
	STAMPEDE_SCREENSHOT=$(SHOT)/flash-sale-100k/latest $(GO) test -tags browser -count=1 \
		-run '^TestScreenshot$$' ./reports

images: ## Build the container images under docker/
	docker/images.sh

engine: build ## Install and start a docker engine, and what tests and images need (Debian or Ubuntu, root)
	@$(BIN) doctor --fix --engine

ci: ## What CI runs
	.ci/run

clean: ## Remove build output; stores left by dead runs too
	@-[ ! -x $(BIN) ] || { $(BIN) clean; $(IN_MEMORY) $(BIN) clean; }
	rm -rf bin
