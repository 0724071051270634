package nodeagent

import (
	"os"

	"github.com/fsnotify/fsnotify"
)

// folderWatch is the one watch on the folder of records, which may be missing or
// be made anew.
type folderWatch struct {
	watcher *fsnotify.Watcher
	inode   fileStamp
}

func (j *Jobs) watcher() (<-chan fsnotify.Event, <-chan error, *folderWatch) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		j.log.Warn("records of jobs are not watched but looked at now and then", "every", j.config.SweepEvery, "err", err)
		return nil, nil, &folderWatch{}
	}
	return w.Events, w.Errors, &folderWatch{watcher: w}
}

func (w *folderWatch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close()
	}
}

// renew sees to it that the watch is on the folder that has the path now.
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
	is := stampOf(info).identity()
	if is == w.inode && len(w.watcher.WatchList()) > 0 {
		return
	}
	for _, old := range w.watcher.WatchList() {
		_ = w.watcher.Remove(old) // of a folder that is gone
	}
	if w.watcher.Add(folder) == nil {
		w.inode = is
	}
}
