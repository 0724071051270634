package slurmctld

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
