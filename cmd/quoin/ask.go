package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/quoin-hpc/quoin/cmd/quoin/comparison"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
)

// checkSlurm asks the running Slurm, and says which nodes it does not have as the files do.
func checkSlurm(ctx context.Context, o *checkOptions, files []lint.File) (*show.Result, error) {
	pub, err := o.render.cluster(o.render.publication)
	if err != nil {
		return nil, err
	}
	slurm := loaded.AskerOf(pub)
	if slurm == nil {
		return nil, errors.New("--ask: the publication does not say how Slurm is asked: set publicationDefaults.slurm.url and publicationDefaults.slurm.tokenFile, or publicationDefaults.slurm.scontrol")
	}
	texts := map[string]string{}
	for _, f := range files {
		texts[filepath.Base(f.Name)] = string(f.Data)
	}
	return comparison.OfSlurm(ctx, slurm, texts)
}
