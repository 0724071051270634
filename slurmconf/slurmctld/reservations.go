package slurmctld

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// Reservation is what Slurm says of a reservation. It may be for later.
type Reservation struct {
	Name string
	// Nodes is a host list.
	Nodes      string
	Start, End time.Time
	// Users and Accounts are those whom it is for, with commas between them.
	Users, Accounts string
}

// ReadReservations reads the reservations of slurmrestd's answer, or of the output of
// `scontrol --json show reservations`.
func ReadReservations(in io.Reader) ([]Reservation, error) {
	all := []Reservation{}
	type jsonReservation struct {
		Name     string `json:"name"`
		Nodes    string `json:"node_list"`
		Start    number `json:"start_time"`
		End      number `json:"end_time"`
		Users    string `json:"users"`
		Accounts string `json:"accounts"`
	}
	err := readList(in, "reservation", func(r *jsonReservation) (int, error) {
		if len(r.Nodes) > maxList {
			return 0, fmt.Errorf("reservation %s: %w", topology.Cut(r.Name, topology.MaxText), errLongList)
		}
		cut := func(text string) string { return topology.Cut(text, topology.MaxText) }
		all = append(all, Reservation{cut(r.Name), strings.Clone(r.Nodes), r.Start.time(), r.End.time(), cut(r.Users), cut(r.Accounts)})
		return nodeBytes + len(r.Nodes), nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
