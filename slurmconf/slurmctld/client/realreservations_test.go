package client

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealReservations asks a real Slurm about reservations of now and of later by each data
// parser and by scontrol. Each names all nodes of Slurm, those in a hidden partition and in none too.
func TestRealReservations(t *testing.T) {
	t.Parallel()
	c, rest, socket := startREST(t, slurmrig.Config{Slurmd: "n[1-3]", SlurmConf: "NodeName=n[1-5] NodeAddr=127.0.0.1 Port=[20161-20165]\nPartitionName=p Nodes=n[1-3] Default=YES\nPartitionName=hidden Nodes=n4 Hidden=YES\n"})
	untilJobs(t, rest, 0, func(s *slurmctld.State) bool {
		return s.Nodes["n1"].State == "IDLE" && s.Nodes["n2"].State == "IDLE" && s.Nodes["n3"].State == "IDLE"
	})
	for _, words := range []string{"reservationname=now starttime=now duration=60 nodes=n1 users=root", "reservationname=maint starttime=now duration=60 nodes=n2 users=root flags=maint",
		"reservationname=later starttime=now+2hours duration=60 nodes=n[1,3] users=root"} {
		c.RunTest(t, append([]string{"scontrol", "create", "reservation"}, strings.Fields(words)...)...)
	}
	program, err := c.Scontrol()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	user := program + ".user" // to whom Slurm hides a partition
	put.File(t, user, strings.Replace(string(text), " scontrol ", " setpriv --reuid=65534 --regid=65534 --clear-groups scontrol ", 1), 0o755)
	askers := map[string]Asker{"scontrol": &Scontrol{Program: program}, "scontrol of a user": &Scontrol{Program: user}}
	for _, parser := range parsers[1:] { // 26.05 has all but v0.0.46
		old := NewREST(socket, rest.tokenFile)
		old.parser = parser
		askers[parser] = old
	}
	untilJobs(t, rest, 0, func(s *slurmctld.State) bool {
		return s.Nodes["n1"].State == "IDLE+RESERVED" && s.Nodes["n2"].Reservation == "maint"
	})
	for name, slurm := range askers {
		got, err := slurm.Ask(t.Context(), Question{Nodes: true, Reservations: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got.Nodes) != 5 {
			t.Errorf("%s: %d nodes, want 5: %v", name, len(got.Nodes), got.Nodes)
		}
		if n := got.Nodes; n["n1"].State != "IDLE+RESERVED" || n["n1"].Reservation != "now" || !strings.Contains(n["n2"].State, "MAINTENANCE") || n["n2"].Reservation != "maint" || n["n3"].Reservation != "" {
			t.Errorf("%s: nodes %+v", name, n)
		}
		if len(got.Reservations) != 3 {
			t.Fatalf("%s: %+v", name, got.Reservations)
		}
		for i, r := range got.Reservations {
			if want := []string{"now", "maint", "later"}[i]; r.Name != want || r.End.Sub(r.Start) != time.Hour || r.Nodes != []string{"n1", "n2", "n[1,3]"}[i] {
				t.Errorf("%s: %+v, want %s", name, r, want)
			}
		}
	}
}
