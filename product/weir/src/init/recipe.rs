//! The answers to `weir init`, and the configuration made from them. It contains only the keys that the answers
//! require.

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use server::service_manager::Account;

pub const KINDS: [&str; 4] = [FOLDER, PROGRAM, PHP, APP];
const FOLDER: &str = "folder";
const PROGRAM: &str = "program";
const PHP: &str = "php";
const APP: &str = "app";
pub const CERTIFICATES: [&str; 3] = [ACME, OWN, NONE];
const ACME: &str = "acme";
const OWN: &str = "own";
const NONE: &str = "none";
/// The answer that stands for all hosts.
pub const ANY: &str = "any";
pub const AUTO: &str = "auto";
/// The names that certbot gives.
pub const USUAL_CERT: &str = "fullchain.pem";
pub const USUAL_KEY: &str = "privkey.pem";
/// Common names of folders with files. The next constant has the folders to which tools build applications.
const FOLDERS: [&str; 6] = ["www", "public", "public_html", "html", "_site", "site"];
const APP_FOLDERS: [&str; 3] = ["dist", "build", "out"];
/// Sockets of php-fpm: Debian's, Red Hat's.
const PHP_SOCKETS: [&str; 3] = ["/run/php/php-fpm.sock", "/run/php-fpm/www.sock", "/run/php-fpm/php-fpm.sock"];
/// The script that answers for paths without a file.
const FRONT: &str = "index.php";
/// Users to which a server may switch, tried in this order; those of php-fpm may read its scripts and socket.
const USERS: [&str; 1] = ["weir"];
const PHP_USERS: [&str; 4] = ["www-data", "apache", "http", "weir"];

/// The answers, as typed or given by flags; `None` if not asked yet.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Answers {
    /// What is served: folder, program, php (scripts, by php-fpm) or app (a single-page app)
    #[arg(long = "serve", value_name = "KIND")]
    pub kind: Option<String>,
    /// Folder of the files, the scripts or the app's build
    #[arg(long, value_name = "DIR")]
    pub folder: Option<String>,
    /// Address of the program
    #[arg(long, value_name = "ADDR")]
    pub program: Option<String>,
    /// Address of php-fpm
    #[arg(long, value_name = "ADDR")]
    pub php_fpm: Option<String>,
    /// Host names, with spaces between them, or any
    #[arg(long = "domain", value_name = "HOSTS")]
    pub hosts: Option<String>,
    /// Certificate for HTTPS: acme (Weir gets and renews it), own (--cert, --key) or none
    #[arg(long, value_name = "WHICH")]
    pub certificate: Option<String>,
    /// The certificate, a PEM file with its chain
    #[arg(long, value_name = "FILE")]
    pub cert: Option<String>,
    /// Its private key, a PEM file
    #[arg(long, value_name = "FILE")]
    pub key: Option<String>,
    /// Rate of the uplink, for example 10mbit, or auto: Weir finds it
    #[arg(long, value_name = "RATE")]
    pub uplink: Option<String>,
    /// Address to listen on
    /// [default: :443 and :80 with a certificate; else :80 for root, :8080 for others]
    #[arg(long, value_name = "ADDR", verbatim_doc_comment)]
    pub listen: Option<String>,
}

fn is(answer: &Option<String>, word: &str) -> bool {
    answer.as_deref() == Some(word)
}

impl Answers {
    pub fn has_folder(&self) -> bool {
        !self.is_program()
    }

    pub fn is_program(&self) -> bool {
        is(&self.kind, PROGRAM)
    }

    pub fn is_php(&self) -> bool {
        is(&self.kind, PHP)
    }

    fn is_app(&self) -> bool {
        is(&self.kind, APP)
    }

    pub fn is_own(&self) -> bool {
        is(&self.certificate, OWN)
    }

    fn is_acme(&self) -> bool {
        is(&self.certificate, ACME)
    }

    /// Returns the folder here that most likely contains the files, or the one that tools create most often.
    pub fn usual_folder(&self) -> String {
        let usual = if self.is_app() { &APP_FOLDERS[..] } else { &FOLDERS };
        usual.iter().find(|folder| Path::new(folder).is_dir()).unwrap_or(&usual[0]).to_string()
    }

    /// Returns the socket of this machine's php-fpm, or the socket that it most likely will have.
    pub fn usual_php_fpm(&self) -> String {
        let found = PHP_SOCKETS.iter().find(|path| Path::new(path).exists()).unwrap_or(&PHP_SOCKETS[0]);
        format!("unix:{found}")
    }

    pub fn usual_certificate(&self) -> String {
        if self.hosts().into_iter().any(config::is_public) { ACME } else { NONE }.into()
    }

    pub fn check_kind(&self) -> Result<(), String> {
        let is_place = self.kind.as_deref().is_some_and(|kind| kind.contains(['/', ':']));
        let next = if is_place { "; where it is, is asked next" } else { "" };
        one_of(&self.kind, &KINDS).map_err(|wrong| wrong + next)
    }

    pub fn check_certificate(&self) -> Result<(), String> {
        if self.is_acme() && self.hosts().is_empty() {
            return Err("`acme`: a certificate is for host names; expected own or none, or hosts (--domain)".into());
        }
        one_of(&self.certificate, &CERTIFICATES)?;
        self.check_text()
    }

    /// Checks the answers so far against the rules of a configuration. The error is a sentence.
    pub fn check_text(&self) -> Result<(), String> {
        config::read(self.text().as_bytes()).map(drop).map_err(|mistakes| mistakes[0].said.clone())
    }

    /// Checks the folder. It must not contain the configuration itself, because the configuration would be served.
    pub fn check_folder(&self, file: &Path) -> Result<(), String> {
        let root = self.root();
        let shown = root.display();
        if !root.is_dir() {
            return Err(format!(
                "`{shown}`: expected a folder that exists; for a program start again with --serve {PROGRAM}"
            ));
        }
        if self.is_app() && !root.join("index.html").is_file() {
            let cure = "the folder of a build, with index.html: npm run build makes it, usually as dist";
            return Err(format!("`{shown}`: expected {cure}"));
        }
        let absolute = std::path::absolute(file).unwrap_or(file.into());
        if absolute.starts_with(&root) {
            let cure = "expected another folder, or a file elsewhere: weir init ../weir.toml";
            return Err(format!("{} would be served: it is below {shown}; {cure}", file.display()));
        }
        self.check_text()
    }

    /// The absolute path of the folder, which does not depend on the location of the configuration.
    fn root(&self) -> PathBuf {
        let folder = self.folder.clone().unwrap_or(self.usual_folder());
        std::fs::canonicalize(&folder).or(std::path::absolute(&folder)).unwrap_or(folder.into())
    }

    /// The host names; an empty list means all hosts.
    fn hosts(&self) -> Vec<&str> {
        let hosts = self.hosts.as_deref().filter(|hosts| *hosts != ANY).unwrap_or_default();
        hosts.split([' ', ',', '\t']).filter(|host| !host.is_empty()).collect()
    }

    /// Returns a remark about a missing php-fpm socket.
    pub fn remark(&self) -> Option<String> {
        let path = self.php_fpm.as_deref().filter(|_| self.is_php())?.strip_prefix("unix:")?;
        let is_there = Path::new(path).exists();
        (!is_there).then(|| format!("`{path}` does not exist yet: start php-fpm, on Debian the package php-fpm"))
    }

    /// Returns the configuration.
    pub fn text(&self) -> String {
        // Tables of a site follow its own keys.
        format!("{HEAD}{}{}{}{}", self.user(), self.uplink(), self.listeners(), self.site())
    }

    fn user(&self) -> String {
        let users = if self.is_php() { &PHP_USERS[..] } else { &USERS[..] };
        let is_there = |user: &&&str| Account::find(user, None).is_ok();
        match users.iter().find(is_there).filter(|_| rustix::process::geteuid().is_root()) {
            Some(user) => format!("[server]\nuser = \"{user}\"    # Weir becomes this user if root starts it\n\n"),
            None => String::new(),
        }
    }

    fn uplink(&self) -> String {
        match self.uplink.as_deref().filter(|rate| *rate != AUTO) {
            Some(rate) => format!("[uplink]\nrate = {}\n\n", quoted(rate)),
            None => "# The rate of your line is found. If you know it:\n# [uplink]\n# rate = \"10mbit\"\n\n".into(),
        }
    }

    fn listeners(&self) -> String {
        let is_secure = self.is_acme() || self.is_own();
        let listener = |address: &str, tls: &str| format!("[[listener]]\naddress = {}\n{tls}\n", quoted(address));
        let plain = if rustix::process::geteuid().is_root() { ":80" } else { ":8080" };
        match (&self.listen, is_secure) {
            (Some(address), true) => listener(address, TLS),
            (None, true) => listener(":80", "") + &listener(":443", TLS),
            (address, false) => listener(address.as_deref().unwrap_or(plain), ""),
        }
    }

    fn site(&self) -> String {
        let mut text =
            if self.is_acme() { "[acme]    # by Let's Encrypt, to whose terms you agree\n\n" } else { "" }.to_string();
        text += "[[site]]\n";
        let hosts: Vec<String> = self.hosts().into_iter().map(quoted).collect();
        if !hosts.is_empty() {
            let _ = writeln!(text, "hosts = [{}]\ndefault = true    # requests for other names too", hosts.join(", "));
        }
        if self.is_own() {
            let of = |file: &Option<String>, usual: &str| file_of(file.as_deref().unwrap_or(usual));
            let (cert, key) = (of(&self.cert, USUAL_CERT), of(&self.key, USUAL_KEY));
            let _ = writeln!(text, "cert = {}\nkey = {}", quoted_path(&cert), quoted_path(&key));
        }
        if (self.is_acme() || self.is_own()) && self.listen.is_none() {
            text += "https_redirect = true\n";
        }
        text + &self.content()
    }

    /// Returns the keys of the served content.
    fn content(&self) -> String {
        let root = format!("root = {}\n", quoted_path(&self.root()));
        match self.kind.as_deref() {
            Some(PROGRAM) => {
                format!("\n[[site.proxy]]\nto = [{}]\n", quoted(self.program.as_deref().unwrap_or_default()))
            }
            Some(PHP) => root + &self.scripts(),
            // Vite's folder of files whose names contain hashes.
            Some(APP) if self.root().join("assets").is_dir() => root + APP_KEYS + ASSETS,
            Some(APP) => root + APP_KEYS,
            _ => root,
        }
    }

    fn scripts(&self) -> String {
        let php_fpm = self.php_fpm.clone().unwrap_or(self.usual_php_fpm());
        let mut text = format!("index = [\"{FRONT}\", \"index.html\"]\nfastcgi = {}\n", quoted(&php_fpm));
        if self.root().join(FRONT).is_file() {
            text += "fallback = \"/index.php\"    # for paths without a file\n";
        }
        if self.root().join("wp-content").is_dir() {
            text += "fastcgi_except = [\"/wp-content/uploads/*\"]    # uploads never run\n";
        }
        text
    }
}

fn one_of(answer: &Option<String>, words: &[&str]) -> Result<(), String> {
    let answer = answer.as_deref().unwrap_or_default();
    let (last, first) = words.split_last().unwrap_or((&"", &[]));
    if words.contains(&answer) { Ok(()) } else { Err(format!("`{answer}`: expected {} or {last}", first.join(", "))) }
}

/// Returns an error if the file does not exist. A file that only root may read is left to `weir check`.
pub fn there(name: &str) -> Result<(), String> {
    match file_of(name).metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("`{name}`: expected a PEM file that exists")),
        _ => Ok(()),
    }
}

/// Returns the absolute path of the file, because the configuration may be in another folder.
fn file_of(name: &str) -> PathBuf {
    std::path::absolute(name).unwrap_or(name.into())
}

const HEAD: &str = "\
# Configuration of Weir. After a change: weir check FILE, then weir reload. weir.toml(5) lists all keys.

";

const TLS: &str = "tls = true    # and HTTP/3: let UDP through too\n";

/// Keys for a single-page app. Browsers must revalidate the app's page each time, because the names of its scripts
/// change.
const APP_KEYS: &str = "\
fallback = \"/index.html\"    # the app shows what a path says

[[site.cache]]
path = \"/\"
control = \"no-cache\"

[[site.cache]]
path = \"/index.html\"
control = \"no-cache\"
";

const ASSETS: &str = "
[[site.cache]]    # names have a hash of their content
path = \"/assets/*\"
control = \"max-age=31536000, immutable\"
";

/// Quotes text as a TOML string, in JSON's form.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}
