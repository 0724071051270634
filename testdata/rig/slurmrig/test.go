package slurmrig

import (
	"maps"
	"strings"
	"testing"
)

// StartRESTTest starts Slurm 26.05 with slurmrestd until the test ends. It returns slurmrestd's
// address, and the file with a token of the user.
func StartRESTTest(tb testing.TB, user string, conf Config) (c *Cluster, url, token string) {
	tb.Helper()
	files := map[string]string{RESTKey: strings.Repeat("k", 32)}
	maps.Copy(files, conf.Files)
	conf.SlurmConf, conf.Files = RESTConf+conf.SlurmConf, files
	c, err := Start(tb.Context(), Slurm2605, tb.TempDir(), conf)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Stop)
	socket, err := c.StartREST(tb.Context())
	if err == nil {
		token, err = c.Token(tb.Context(), user)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return c, "unix:" + socket, token
}
