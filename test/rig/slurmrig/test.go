package slurmrig

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/need"
	"github.com/quoin-hpc/quoin/test/rig/slots"
)

// NeedTest skips the test in a short run, and fails it if no Slurm can run. A test that works for
// long before it starts a Slurm calls it first.
func NeedTest(t testing.TB) {
	t.Helper()
	for _, r := range Releases() {
		need.Rig(t, "Slurm", r.Build)
	}
	need.Root(t)
}

// StartTest starts a Slurm that ends with the test. A short run skips the test; a Slurm that
// does not start fails it. If the test fails, the end of slurmctld's log is logged. Sub-tests
// that run beside each other start a Slurm each, and their parent none: it would share its
// slot with them.
func StartTest(t testing.TB, r Release, conf Config) *Cluster {
	t.Helper()
	NeedTest(t)
	slots.Take(t, slots.Slurm)
	c, err := Start(t.Context(), r, t.TempDir(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of slurmctld's log:\n%s", last(c.Log("slurmctld")))
		}
		c.Stop()
	})
	return c
}

// RunTest is Run for a program that must succeed. If it does not, slurmctld's log is shown too.
func (c *Cluster) RunTest(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.Run(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, last(c.Log("slurmctld")))
	}
	return out
}

// logLines is how much of a log is shown of a test that failed.
const logLines = 30

func last(log string) string {
	lines := slices.Collect(strings.Lines(log))
	return strings.Join(lines[max(0, len(lines)-logLines):], "")
}

// StartRESTTest starts Slurm 26.05 with slurmrestd, as StartTest does. It returns slurmrestd's
// address, and the file with a token of the user.
func StartRESTTest(t testing.TB, user string, conf Config) (c *Cluster, url, token string) {
	t.Helper()
	files := map[string]string{RESTKey: strings.Repeat("k", 32)}
	maps.Copy(files, conf.Files)
	conf.SlurmConf, conf.Files = RESTConf+conf.SlurmConf, files
	c = StartTest(t, Slurm2605, conf)
	socket, err := c.StartREST(t.Context())
	if err == nil {
		token, err = c.Token(t.Context(), user)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, "unix:" + socket, token
}

// NewCheckerTest returns a checker that ends with the test. A short run skips the test.
func NewCheckerTest(t testing.TB, r Release) *Checker {
	t.Helper()
	NeedTest(t)
	slots.Take(t, slots.Slurm)
	c, err := NewChecker(t.Context(), r, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
