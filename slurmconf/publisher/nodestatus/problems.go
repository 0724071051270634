package nodestatus

import (
	"context"
	"log/slog"

	"github.com/quoin-hpc/quoin/topology"
)

// ProblemLog remembers the problems that were logged.
type ProblemLog map[topology.Finding]bool

// Note logs each problem once, and once more when it has gone.
func (l *ProblemLog) Note(ctx context.Context, log *slog.Logger, publication string, problems []topology.Finding) {
	now := make(ProblemLog, len(problems))
	say := func(level slog.Level, text string, pr topology.Finding) {
		log.LogAttrs(ctx, level, text, slog.String("publication", publication), slog.String("node", pr.Node), slog.String("reason", pr.Reason), slog.String("message", pr.Message))
	}
	for _, pr := range problems {
		pr.Message = topology.Cut(pr.Message, topology.MaxMessage)
		now[pr] = true
		if !(*l)[pr] {
			say(slog.LevelWarn, "problem", pr)
		}
	}
	for pr := range *l {
		if !now[pr] {
			say(slog.LevelInfo, "problem gone", pr)
		}
	}
	*l = now
}
