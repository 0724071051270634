package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
)

// TestRealHookSettings compares what LintHook takes the time limits of a slurm.conf to be
// with what slurmctld has read from it: a Prolog that takes as long is well, one that
// takes a second more is not.
func TestRealHookSettings(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	const common = "PrologFlags=nohold\nprologepilogtimeout=50\nBatchStartTimeout=4\nInclude more.conf\n"
	for _, release := range slurmrig.Releases() {
		texts := []string{"", common, "PrologEpilogTimeout=0\nBatchStartTimeout=0x20\nPrologFlags=Serial\n", "PrologEpilogTimeout=INFINITE\nPrologFlags=Alloc\nPrologFlags=Serial\n", "PrologEpilogTimeout=65533\nPrologFlags=RunInJob\n"}
		if release == slurmrig.Slurm2605 {
			texts = append(texts, "PrologTimeout=20\nEpilogTimeout=10\n", "PrologEpilogTimeout=20\nPrologTimeout=30\nPrologFlags=DeferBatch\n")
		}
		for _, text := range texts {
			t.Run(release.Slurm+" "+text, func(t *testing.T) {
				t.Parallel()
				compareHookSettings(t, release, text)
			})
		}
	}
}

func compareHookSettings(t *testing.T, release slurmrig.Release, text string) {
	t.Helper()
	text += "Prolog=/etc/slurm/prolog.sh\nNodeName=n1 NodeAddr=127.0.0.1\nPartitionName=main Nodes=ALL\n"
	c := slurmrig.StartTest(t, release, slurmrig.Config{SlurmConf: text, Files: map[string]string{"prolog.sh": "#!/bin/bash\n", "more.conf": "PrologEpilogTimeout=0100\n"}})
	shown, err := c.Run(t.Context(), "scontrol", "show", "config")
	if err != nil {
		t.Fatal(err, shown)
	}
	get := func(key string) string {
		m := regexp.MustCompile(`(?m)^` + key + `\s*= (.*)$`).FindStringSubmatch(shown)
		if m == nil {
			return ""
		}
		return strings.TrimSuffix(strings.TrimSpace(m[1]), " sec")
	}
	number := func(keys ...string) int {
		for _, key := range keys {
			if n, err := strconv.Atoi(get(key)); err == nil {
				return n
			}
		}
		t.Fatalf("no %v in\n%s", keys, shown)
		return 0
	}
	conf, err := slurmctld.ParseConf("slurm.conf", []byte(text), func(file string) (string, []byte, error) {
		data, err := os.ReadFile(filepath.Join(c.Dir, file))
		return file, data, err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := func(limit string, seconds int) bool {
		found := lint.LintSettings("slurm.conf", conf.Settings, lint.Hook{PrologSeconds: seconds})
		return slices.ContainsFunc(found, func(f topology.Finding) bool {
			return f.Reason == "PrologTooShort" && strings.Contains(f.Message, limit)
		})
	}
	const ever = 1 << 20
	prolog, batch := number("PrologTimeout", "PrologEpilogTimeout"), number("BatchStartTimeout")
	what := fmt.Sprintf("slurmctld has a limit of %d s for Prologs, %d s for batch jobs and flags %s", prolog, batch, get("PrologFlags"))
	if none := prolog == 0 || prolog >= 65534; none && names("drains the node", ever) || !none && (names("drains the node", prolog) || !names("drains the node", prolog+1)) {
		t.Errorf("%s: LintHook takes that of Prologs for another", what)
	}
	if alloc := strings.Contains(get("PrologFlags"), "Alloc"); alloc && names("BatchStartTimeout", ever) || !alloc && (names("BatchStartTimeout", batch) || !names("BatchStartTimeout", batch+1)) {
		t.Errorf("%s: LintHook takes that of batch jobs for another", what)
	}
}
