package again

import "log/slog"

// Log logs each problem once for as long as it stays the same, and its end.
type Log struct {
	*slog.Logger
	noted map[string]Once // by what each is about
}

// NewLog returns a Log without problems. It is for one goroutine.
func NewLog(log *slog.Logger) *Log { return &Log{log, make(map[string]Once)} }

// Note takes the outcome of work. about says the same each time; err is nil if all is well.
func (l *Log) Note(about string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	last := l.noted[about]
	if !last.IsNew(text) {
		return
	}
	if l.noted[about] = last; err == nil {
		l.Info("problem is solved", "about", about)
	} else {
		l.Warn("problem", "about", about, "err", err)
	}
}
