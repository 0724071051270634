package main

import (
	"log/slog"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
)

// slurmKeys are the keys that say how Slurm is asked, for errors.
const slurmKeys = "publicationDefaults.slurm.url and publicationDefaults.slurm.tokenFile, or publicationDefaults.slurm.scontrol"

// slurmOnce returns the Client of a publication's Slurm for a command, or nil if the publication does not say how Slurm
// is asked. The Client logs nothing, because the command reports errors.
func slurmOnce(pub *publication.Cluster) *client.Client {
	return slurmOfAll([]*publication.Cluster{pub}, slog.New(slog.DiscardHandler))[pub.Name]
}

// slurmOfAll returns the Clients of the publications that have one, by name.
func slurmOfAll(pubs []*publication.Cluster, log *slog.Logger) map[string]*client.Client {
	all := map[string]*client.Client{}
	for _, pub := range pubs {
		switch c := &pub.Slurm; {
		case c.URL != "":
			all[pub.Name] = client.New(pub.Name, client.NewREST(c.URL, c.TokenFile), log)
		case c.Scontrol != "":
			all[pub.Name] = client.New(pub.Name, &client.Scontrol{Program: c.Scontrol}, log)
		}
	}
	return all
}
