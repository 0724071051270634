package jobs

import (
	"log/slog"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
)

// folderWatch is the one watch on the folder of records, which may be missing or be
// replaced.
type folderWatch struct {
	watcher *fsnotify.Watcher
	events  <-chan fsnotify.Event
	errors  <-chan error
	folder  fileStamp
}

// watchFolder returns a watch that watches nothing yet.
func watchFolder(every time.Duration, log *slog.Logger) *folderWatch {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("records of jobs cannot be watched: they are read at intervals", "every", every, "err", err)
		return &folderWatch{}
	}
	return &folderWatch{watcher: w, events: w.Events, errors: w.Errors}
}

func (w *folderWatch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close()
	}
}

// renew puts the watch on the folder that has the path now.
func (w *folderWatch) renew(folder string) {
	if w.watcher == nil {
		return
	}
	info, err := os.Stat(folder)
	if err != nil {
		_ = os.Mkdir(folder, 0o755) // the run directory may be missing as well; the next round tries again
		if info, err = os.Stat(folder); err != nil {
			return
		}
	}
	now := stampOf(info).identity()
	if now == w.folder && len(w.watcher.WatchList()) > 0 {
		return
	}
	for _, old := range w.watcher.WatchList() {
		_ = w.watcher.Remove(old) // of a folder that is gone
	}
	if w.watcher.Add(folder) == nil {
		w.folder = now
	}
}
