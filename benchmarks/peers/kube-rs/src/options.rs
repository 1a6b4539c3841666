//! The command line, which is the same for every peer.

/// What a run is about. A combination that kube-rs cannot do ends the process with status 3.
#[derive(Clone)]
pub struct Options {
    pub kubeconfig: String,
    pub kind: String,
    pub mode: Mode,
    pub form: String,
    pub controllers: usize,
    pub namespaces: usize,
    pub workers: u16,
    pub strip: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Informer,
    Noop,
    Patch,
    Apply,
}

impl Options {
    pub fn parse() -> Self {
        let mut o = Self {
            kubeconfig: String::new(),
            kind: "widgets".into(),
            mode: Mode::Informer,
            form: "typed".into(),
            controllers: 1,
            namespaces: 0,
            workers: 16,
            strip: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(flag) = arguments.next() {
            if flag == "--strip-managed-fields" {
                o.strip = true;
                continue;
            }
            let value = arguments.next().unwrap_or_else(|| usage(&format!("{flag} needs a value")));
            match flag.as_str() {
                "--kubeconfig" => o.kubeconfig = value,
                "--kind" => o.kind = value,
                "--form" => o.form = value,
                "--wire" if value == "json" => {}
                "--wire" => impossible("kube-rs speaks JSON only"),
                "--controllers" => o.controllers = number(&flag, &value).into(),
                "--namespaces" => o.namespaces = number(&flag, &value).into(),
                "--workers" => o.workers = number(&flag, &value),
                "--mode" => {
                    o.mode = match value.as_str() {
                        "informer" => Mode::Informer,
                        "noop" => Mode::Noop,
                        "patch" => Mode::Patch,
                        "apply" => Mode::Apply,
                        _ => usage(&format!("unknown mode {value:?}")),
                    }
                }
                _ => usage(&format!("unknown flag {flag}")),
            }
        }
        if o.kubeconfig.is_empty() {
            usage("--kubeconfig is required");
        }
        o.check();
        o
    }

    fn check(&self) {
        let controller = self.mode != Mode::Informer;
        if self.mode == Mode::Patch && (self.kind != "widgets" || self.form == "metadata") {
            impossible("mode patch needs widgets with a spec to report on");
        }
        if self.mode == Mode::Apply && (self.kind != "widgets" || self.form != "typed") {
            impossible("mode apply is there for typed widgets");
        }
        if self.kind == "mixed" && (controller || self.namespaces > 0) {
            impossible("kind mixed is there for mode informer in all namespaces");
        }
        if self.controllers > 1 && (!controller || self.form != "typed") {
            impossible("only controllers of typed kinds can share a stream");
        }
    }
}

/// Say what cannot be done, and end as every peer does in that case.
pub fn impossible(what: &str) -> ! {
    eprintln!("{what}");
    std::process::exit(3)
}

fn usage(what: &str) -> ! {
    eprintln!("{what}");
    std::process::exit(2)
}

fn number(flag: &str, value: &str) -> u16 {
    value.parse().unwrap_or_else(|_| usage(&format!("{flag} needs a number below 65536, not {value:?}")))
}
