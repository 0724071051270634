package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quoin-hpc/quoin/nodeagent"
)

// dcgmOptions are the flags that say who knows DCGM's ids of the GPUs.
type dcgmOptions struct {
	hostEngine, exporter string
	every                time.Duration
}

func (o *dcgmOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.hostEngine, "dcgm-host-engine", "", "`address` of this node's DCGM host engine, such as localhost:5555 or the path of its socket, to learn DCGM's ids of the GPUs; needs libdcgm.so.4")
	f.StringVar(&o.exporter, "dcgm-exporter", "", "`URL` of this node's DCGM Exporter, such as http://localhost:9400/metrics, to learn them where the host engine does not answer; without both NVML's indices are taken")
	o.every = 10 * time.Minute
	f.Var((*interval)(&o.every), "dcgm-interval", "`time` between two readings of DCGM's ids while no GPU changes, more than 0")
}

// sources returns who is asked for the ids, in this order.
func (o *dcgmOptions) sources(log *slog.Logger) ([]nodeagent.IDSource, error) {
	var out []nodeagent.IDSource
	if o.hostEngine != "" {
		if strings.ContainsAny(o.hostEngine, " \t\n") || strings.Contains(o.hostEngine, "://") {
			return nil, fmt.Errorf("--dcgm-host-engine %q: want an address such as localhost:5555, or the path of a socket", o.hostEngine)
		}
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find own program: %w", err)
		}
		out = append(out, nodeagent.NewHostEngine(o.hostEngine, []string{self, "probe-dcgm", "--host-engine", o.hostEngine}, log))
	}
	if o.exporter != "" {
		u, err := url.Parse(o.exporter)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("--dcgm-exporter %q: want a URL such as http://localhost:9400/metrics", o.exporter)
		}
		out = append(out, nodeagent.NewExporter(u.String()))
	}
	return out, nil
}
