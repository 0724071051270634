package nodeagent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// Others finds out whether this agent's token may write the reports of other nodes. It must not:
// whoever takes over a node could then change the topology of the cluster.
type Others struct {
	try   func(context.Context) error
	state *prometheus.GaugeVec
	log   *slog.Logger
}

const (
	// othersAgain is the time to the next try if a report would be written, because a new
	// policy is in force after some seconds, and othersEvery if that stays so. othersFailed
	// is the time after a try without an answer.
	othersAgain, othersEvery, othersFailed = 30 * time.Second, 10 * time.Minute, time.Minute
)

// NewOthers returns an Others and registers its series with reg. try is
// nodereport.Client.TryOther.
func NewOthers(try func(context.Context) error, reg prometheus.Registerer, log *slog.Logger) *Others {
	o := &Others{try, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_agent_may_write_other_reports",
		Help: "1 if the API server would let this agent write the report of another node, 0 if an admission policy refuses it. Absent while nobody knows."}, nil), log}
	reg.MustRegister(o.state)
	return o
}

// Run tries until the API server has refused, and then waits until ctx ends.
func (o *Others) Run(ctx context.Context) error {
	may, told := 0, ""
	for ctx.Err() == nil {
		err := o.try(ctx)
		pause := othersFailed
		switch {
		case errors.Is(err, nodereport.ErrOwnOnly):
			o.state.WithLabelValues().Set(0)
			o.log.Info("an admission policy refuses the reports of other nodes")
			<-ctx.Done()
		case err == nil:
			may++
			pause = othersAgain
			if may > 1 {
				o.state.WithLabelValues().Set(1)
				pause = othersEvery
			}
			if may == 2 {
				o.log.Error("this agent's token may write the reports of other nodes, so a stolen node could change the topology of the cluster: " +
					"apply manifests/30-admission.yaml, or run helm upgrade; quoin doctor says what is missing")
			}
		case err.Error() != told && ctx.Err() == nil:
			told = err.Error()
			o.log.Warn("not known whether this agent's token may write the reports of other nodes", "err", topology.Cut(told, topology.MaxMessage))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}
