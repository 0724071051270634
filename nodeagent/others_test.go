package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/topology/nodereport"
)

func TestOthers(t *testing.T) {
	away := errors.New("the API server does not answer")
	tests := []struct {
		name    string
		answers []error // the last one stays
		after   time.Duration
		series  string // the value, or none
		log     []string
		tries   int
	}{
		{"refused", []error{nodereport.ErrOwnOnly}, time.Hour, "0", []string{"INFO an admission policy refuses"}, 1},
		{"the policy comes with the agent", []error{nil, nodereport.ErrOwnOnly}, time.Hour, "0", []string{"INFO an admission policy refuses"}, 2},
		{"no policy", []error{nil}, time.Hour, "1", []string{"ERROR this agent's token may write the reports of other nodes"}, 7},
		{"a policy after an hour", []error{nil, nil, nil, nodereport.ErrOwnOnly}, time.Hour, "0", []string{"ERROR this agent's token may", "INFO an admission policy refuses"}, 4},
		{"no answer at first", []error{away, away, nodereport.ErrOwnOnly}, time.Hour, "0", []string{"WARN not known whether", "INFO an admission policy refuses"}, 3},
		{"no answer", []error{away}, 10*time.Minute + time.Second, "none", []string{"WARN not known whether"}, 11},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				reg, tries := prometheus.NewRegistry(), 0
				o := NewOthers(func(context.Context) error {
					tries++
					return tt.answers[min(tries, len(tt.answers))-1]
				}, reg, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{})))
				ctx, cancel := context.WithTimeout(t.Context(), tt.after)
				defer cancel()
				if err := o.Run(ctx); err != nil || ctx.Err() == nil {
					t.Errorf("ended before ctx, error %v", err)
				}
				series := "none"
				if n, _ := testutil.GatherAndCount(reg); n > 0 {
					series = map[float64]string{0: "0", 1: "1"}[testutil.ToFloat64(o.state)]
				}
				var said []string
				for line := range strings.Lines(log.String()) {
					_, rest, _ := strings.Cut(line, "level=")
					level, rest, _ := strings.Cut(rest, " msg=\"")
					said = append(said, level+" "+rest)
				}
				if len(said) != len(tt.log) || series != tt.series || tries != tt.tries {
					t.Errorf("series %s, %d tries, said %q; want %s, %d, %q", series, tries, said, tt.series, tt.tries, tt.log)
				}
				for i := range min(len(said), len(tt.log)) {
					if !strings.HasPrefix(said[i], tt.log[i]) {
						t.Error(cmp.Diff(tt.log[i], said[i]))
					}
				}
			})
		})
	}
}
