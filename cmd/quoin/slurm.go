package main

import (
	"log/slog"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
)

// slurmKeys are the keys that say how Slurm is asked, for errors.
const slurmKeys = "publicationDefaults.slurm.url and publicationDefaults.slurm.tokenFile, or publicationDefaults.slurm.scontrol"

// slurmOf returns the Client of a publication's Slurm, or nil if the publication does not say how
// it is asked.
func slurmOf(pub *publication.Cluster, log *slog.Logger) *client.Client {
	switch c := &pub.Slurm; {
	case c.URL != "":
		return client.New(pub.Name, client.NewREST(c.URL, c.TokenFile), log)
	case c.Scontrol != "":
		return client.New(pub.Name, &client.Scontrol{Program: c.Scontrol}, log)
	}
	return nil
}

// slurmOnce is slurmOf for a command. The Client logs nothing, because the command reports errors.
func slurmOnce(pub *publication.Cluster) *client.Client {
	return slurmOf(pub, slog.New(slog.DiscardHandler))
}

// slurmOfAll returns the Clients of the publications that have one, by name.
func slurmOfAll(pubs []*publication.Cluster, log *slog.Logger) map[string]*client.Client {
	all := map[string]*client.Client{}
	for _, pub := range pubs {
		if c := slurmOf(pub, log); c != nil {
			all[pub.Name] = c
		}
	}
	return all
}
