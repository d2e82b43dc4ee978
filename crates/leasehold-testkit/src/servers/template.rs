//! What a server's directory begins with, where making that takes seconds: made once, and copied.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

/// The template that `make` fills, kept in the directory for temporary files for the tests to come. One for each version
/// of the `program`; another process may be making it at the same time.
pub(super) fn template(name: &str, program: &Path, make: impl FnOnce(&Path)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    let about = fs::metadata(program).expect("the program is there");
    (program, about.len(), about.mtime()).hash(&mut hasher);
    let name = format!("leasehold-template-{name}-{}-{:016x}", Uid::effective(), hasher.finish());
    let path = std::env::temp_dir().join(&name);
    if path.is_dir() {
        return path;
    }
    let lock = File::create(path.with_extension("lock")).expect("a file can be made");
    lock.lock().expect("files can be locked");
    if !path.is_dir() {
        let unfinished = path.with_extension("unfinished");
        let _ = fs::remove_dir_all(&unfinished); // Somebody may have been killed while making it.
        fs::create_dir(&unfinished).expect("a directory can be made");
        make(&unfinished);
        fs::rename(&unfinished, &path).expect("it is ours");
    }
    path
}

/// Copies all that is in a directory to another one, which is made.
pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("the template is there").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy(&from, &to),
            Ok(kind) if kind.is_file() => drop(fs::copy(&from, &to).expect("the template can be copied")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_made_once_and_copied_with_all_that_is_in_it() {
        let name = format!("test-{}", std::process::id());
        let program = std::env::current_exe().unwrap();
        let make = |path: &Path| {
            fs::create_dir(path.join("inner")).unwrap();
            fs::write(path.join("inner/file"), "x").unwrap();
        };
        let made = template(&name, &program, make);
        assert_eq!(template(&name, &program, |_| panic!("it is there")), made);
        let parent = tempfile::tempdir().unwrap();
        copy(&made, &parent.path().join("copy"));
        assert_eq!(fs::read_to_string(parent.path().join("copy/inner/file")).unwrap(), "x");
        fs::remove_dir_all(&made).unwrap();
        fs::remove_file(made.with_extension("lock")).unwrap();
    }
}
