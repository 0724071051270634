package live

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
)

// reservations has two as slurmrestd 26.05.5 writes them, shortened.
const reservations = `{"reservations":[
 {"accounts":"","core_count":1,"end_time":{"set":true,"infinite":false,"number":1795571087},"flags":["MAINT","SPEC_NODES"],"name":"m1","node_count":2,"node_list":"n[2-3]","start_time":{"set":true,"infinite":false,"number":1795567487},"users":"root"},
 {"accounts":"physics,maths","end_time":{"set":false,"infinite":true,"number":0},"name":"later","node_list":"","start_time":{"set":true,"number":1795574687},"users":""}
],"last_update":{"set":true,"number":1795472057},"errors":[]}`

func TestReadReservations(t *testing.T) {
	got, err := ReadReservations(strings.NewReader(reservations))
	want := []Reservation{{Name: "m1", Nodes: "n[2-3]", Start: time.Unix(1795567487, 0), End: time.Unix(1795571087, 0), Users: "root"}, {Name: "later", Start: time.Unix(1795574687, 0), Accounts: "physics,maths"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		`{"reservations":[{"name":7}]}`: "read reservation 1:",
		`{"errors":[]}`:                 "no list of reservations",
		`{"reservations":[{"name":"r","node_list":"` + strings.Repeat("n", maxList+1) + `"}]}`: "read reservation 1: reservation r: the host list is too long",
	} {
		if _, err := ReadReservations(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: error %v, want one with %q", text, err, want)
		}
	}
}

func FuzzReadReservations(f *testing.F) {
	for _, text := range []string{reservations, `{"reservations":[]}`, `{"reservations":[{"start_time":{"number":-1},"end_time":null,"node_list":"x"}]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ReadReservations(strings.NewReader(text))
		if all == nil && err == nil {
			t.Fatal("neither reservations nor an error")
		}
		for _, r := range all {
			if len(r.Nodes) > maxList || len(r.Name) > 256 || !r.End.IsZero() && r.End.Unix() <= 0 {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// TestRealReservations asks a real Slurm about reservations of now and of later by each data
// parser and by scontrol.
func TestRealReservations(t *testing.T) {
	t.Parallel()
	c, rest, socket := startREST(t, slurmrig.Config{Slurmd: "n[1-3]", SlurmConf: "NodeName=n[1-3] NodeAddr=127.0.0.1 Port=[20161-20163]\nPartitionName=p Nodes=ALL Default=YES\n"})
	untilJobs(t, rest, 0, func(s *State) bool {
		return s.Nodes["n1"].State == "IDLE" && s.Nodes["n2"].State == "IDLE" && s.Nodes["n3"].State == "IDLE"
	})
	for _, words := range []string{"reservationname=now starttime=now duration=60 nodes=n1 users=root", "reservationname=maint starttime=now duration=60 nodes=n2 users=root flags=maint",
		"reservationname=later starttime=now+2hours duration=60 nodes=n[1,3] users=root"} {
		if out, err := c.Run(t.Context(), append([]string{"scontrol", "create", "reservation"}, strings.Fields(words)...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	program, err := c.Scontrol()
	if err != nil {
		t.Fatal(err)
	}
	askers := map[string]Asker{"scontrol": &Scontrol{Program: program}}
	for _, parser := range parsers {
		old := NewREST(socket, rest.tokenFile)
		old.parser = parser
		askers[parser] = old
	}
	untilJobs(t, rest, 0, func(s *State) bool {
		return s.Nodes["n1"].State == "IDLE+RESERVED" && s.Nodes["n2"].Reservation == "maint"
	})
	for name, slurm := range askers {
		got, err := slurm.Ask(t.Context(), Question{Topologies: []string{""}, Reservations: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
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
