package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-hpc/quoin/nodeagent"
)

// dcgmOptions are the flags that say who knows DCGM's ids of the GPUs.
type dcgmOptions struct {
	exporter string
	every    time.Duration
}

func (o *dcgmOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.exporter, "dcgm-exporter", "", "`URL` of this node's DCGM Exporter, such as http://localhost:9400/metrics, to learn its ids of the GPUs; default: NVML's indices are taken")
	o.every = 10 * time.Minute
	f.Var((*interval)(&o.every), "dcgm-interval", "`time` between two readings of DCGM's ids while no GPU changes, more than 0")
}

// sources returns who is asked for the ids, in this order.
func (o *dcgmOptions) sources(*slog.Logger) ([]nodeagent.IDSource, error) {
	var out []nodeagent.IDSource
	if o.exporter != "" {
		u, err := url.Parse(o.exporter)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("--dcgm-exporter %q: want a URL such as http://localhost:9400/metrics", o.exporter)
		}
		out = append(out, nodeagent.NewExporter(u.String()))
	}
	return out, nil
}
