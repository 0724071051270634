package live

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
)

// BenchmarkRealAsk asks a real Slurm about 10,008 nodes.
func BenchmarkRealAsk(b *testing.B) {
	const nodes = 10008
	c, err := slurmrig.Start(b.Context(), slurmrig.Slurm2605, b.TempDir(), slurmrig.Config{
		SlurmConf: slurmrig.RESTConf + fmt.Sprintf("NodeName=n[1-%d] NodeAddr=127.0.0.1 Port=20131\nPartitionName=p Nodes=ALL\n", nodes),
		Files:     map[string]string{slurmrig.RESTKey: strings.Repeat("k", 32)}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Stop)
	socket, err := c.StartREST(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	token, err := c.Token(b.Context(), "nobody")
	if err != nil {
		b.Fatal(err)
	}
	program, err := c.Scontrol()
	if err != nil {
		b.Fatal(err)
	}
	rest := NewREST("unix:"+socket, token)
	for name, slurm := range map[string]Asker{"slurmrestd": rest, "scontrol": &Scontrol{Program: program}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s, err := slurm.Ask(b.Context(), Question{Nodes: nodes}); err != nil || len(s.Nodes) != nodes {
					b.Fatal(err)
				}
			}
		})
	}
	err = rest.get(b.Context(), "nodes/", func(body io.Reader) error {
		n, err := io.Copy(io.Discard, body)
		b.Logf("%d bytes", n)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}
