use super::*;

fn route(path: &str) -> Route<'_> {
    Route { site: b"site", method: b"GET", path: path.as_bytes(), status: 200, ..Route::default() }
}

/// A path of letters for each number.
fn distinct(number: usize) -> String {
    let letters: String = format!("{number}").bytes().map(|digit| char::from(b'g' + digit - b'0')).collect();
    format!("/{letters}")
}

fn enter_all(routes: &mut Routes, count: usize) {
    for at in 0..count {
        routes.enter(&route(&distinct(at)));
    }
}

/// Sends `count` responses of this size whole.
fn finish(routes: &mut Routes, key: RouteKey, count: usize, bytes: u64) {
    for _ in 0..count {
        routes.note(key, bytes);
    }
}

#[test]
fn a_response_has_the_same_route_by_the_number_of_its_request() {
    let mut routes = Routes::new();
    let answer = Route { content_type: b"text/css", ..route("/users/17?x") };
    let asked = ServiceRoute::of(&Route { status: 0, ..route("/users/18") });
    assert_eq!(routes.enter_answer(asked, &answer), routes.enter(&answer));
    assert_ne!(routes.enter_answer(asked, &route("/users/17")), routes.enter(&answer));
}

#[test]
fn too_little_is_known_of_fifteen() {
    let mut routes = Routes::new();
    let key = routes.enter(&route("/a"));
    for at in 0..SAMPLES_MIN {
        assert_eq!((routes.curve(key), routes.quantile(key, 0.5)), (None, None), "after {at}");
        assert_eq!(routes.share_below(key, 1000), None);
        assert_eq!(routes.note(key, 1000), None);
        routes.note_censored(key, 1000);
    }
    assert!(routes.curve(key).is_some() && routes.quantile(key, 0.5).is_some());
    // The predicted position of a size is the value that `note` returns for it.
    let share = routes.share_below(key, 700);
    assert!(share.is_some() && share == routes.note(key, 700) && share < routes.share_below(key, 1000));
}

/// A new path ranks by the sizes of all paths, until enough of its own are known.
#[test]
fn too_little_known_of_a_path_is_known_of_all() {
    let mut routes = Routes::new();
    let (small, large) = (routes.enter(&route("/small")), routes.enter(&route("/large")));
    finish(&mut routes, small, 100, 1000);
    assert_eq!(routes.quantile(large, 0.5), None);
    let of_all = routes.curve(large).unwrap();
    finish(&mut routes, large, 15, 1_000_000);
    assert!(routes.curve(large).unwrap().rank(0) < 10_000);
    finish(&mut routes, large, 1, 1_000_000);
    assert!(routes.curve(large).unwrap().rank(0) > 500_000 && of_all.rank(0) < 2000);
    // Nothing is known of responses of another type.
    let other = routes.enter(&Route { content_type: b"text/css", ..route("/large") });
    assert_eq!(routes.curve(other), None);
    // An aborted response also counts for all paths.
    routes.note_censored(small, 5);
    assert_eq!(routes.rows().find(|row| row.route == "site GET /** 2xx - -").unwrap().censored, 1);
}

#[test]
fn a_curve_is_kept_until_enough_have_come() {
    let mut routes = Routes::new();
    let key = routes.enter(&route("/a"));
    finish(&mut routes, key, 16, 1000);
    let first = routes.curve(key).unwrap();
    finish(&mut routes, key, 15, 100_000);
    assert!(Arc::ptr_eq(&first, &routes.curve(key).unwrap()));
    routes.note_censored(key, 100_000);
    let second = routes.curve(key).unwrap();
    assert!(!Arc::ptr_eq(&first, &second) && second.rank(0) > first.rank(0));
    // After many samples, a share of the remembered ones has to come first.
    finish(&mut routes, key, 400, 1000);
    let third = routes.curve(key).unwrap();
    finish(&mut routes, key, 51, 1000);
    assert!(Arc::ptr_eq(&third, &routes.curve(key).unwrap()));
    finish(&mut routes, key, 12, 1000);
    assert!(!Arc::ptr_eq(&third, &routes.curve(key).unwrap()));
}

#[test]
fn routes_that_come_once_push_out_each_other() {
    let mut routes = Routes::new();
    let used: Vec<RouteKey> = (0..100).map(|at| routes.enter(&route(&distinct(at)))).collect();
    used.iter().for_each(|key| finish(&mut routes, *key, 20, 1000));
    enter_all(&mut routes, 100);
    for at in 1000..50_000 {
        routes.enter(&route(&distinct(at)));
        assert!(routes.len() <= ROUTES_MAX);
        if at % 3000 == 0 {
            enter_all(&mut routes, 100);
        }
    }
    assert_eq!(routes.len(), ROUTES_MAX);
    assert!(used.iter().all(|key| routes.curve(*key).is_some()));
    // A route that is gone has no values.
    let gone = RouteKey { digest: route(&distinct(1000)).digest(), place: 0 };
    assert_eq!((routes.note(gone, 1), routes.curve(gone), routes.quantile(gone, 0.5)), (None, None, None));
    routes.note_censored(gone, 1);
    assert_eq!(routes.places.len(), ROUTES_MAX);
    for (place, entry) in routes.entries.iter().enumerate() {
        assert_eq!(routes.places[&entry.digest] as usize, place);
    }
}

#[test]
fn a_full_table_of_used_routes_makes_room() {
    let mut routes = Routes::new();
    for _ in 0..=2 * USES_MAX {
        enter_all(&mut routes, ROUTES_MAX);
    }
    let new = routes.enter(&route("/new"));
    assert_eq!(routes.len(), ROUTES_MAX);
    routes.note(new, 5);
    // The two rows are the route itself and the route of all paths.
    assert_eq!(routes.rows().filter(|row| row.finished == 1).count(), 2);
}

#[test]
fn rows_say_what_was_seen() {
    let mut routes = Routes::new();
    let key = routes.enter(&route("/items/1"));
    assert_eq!(routes.enter(&route("/items/2")), key);
    finish(&mut routes, key, 50, 1024);
    finish(&mut routes, key, 50, 4096);
    routes.note_censored(key, 100);
    let rows: Vec<Row> = routes.rows().collect();
    let [all, row] = &rows[..] else { panic!("one route and all paths: {rows:?}") };
    assert_eq!((all.route.as_str(), all.finished, all.censored), ("site GET /** 2xx - -", 100, 1));
    assert_eq!((row.route.as_str(), row.finished, row.censored), ("site GET /items/* 2xx - -", 100, 1));
    assert!((2000..=2100).contains(&row.median) && (8000..=8192).contains(&row.p99), "{row:?}");
    assert_eq!(row.calibration.predicted(), 100 - u64::from(SAMPLES_MIN));
    // The first sizes of the larger half were above the whole predicted distribution.
    let (below_median, below_p99) = (row.calibration.below_median(), row.calibration.below_p99);
    assert!(below_p99 < row.calibration.predicted() && below_median < below_p99, "{:?}", row.calibration);
    assert_eq!(routes.calibration(), row.calibration);
}

#[test]
fn the_rows_with_the_most_samples_come_first() {
    let mut routes = Routes::new();
    for (path, samples) in [("/few", 1), ("/many", 5), ("/none", 0), ("/also", 1)] {
        let key = routes.enter(&route(path));
        finish(&mut routes, key, samples, 1000);
    }
    let often = routes.enter(&route("/aborted"));
    (0..3).for_each(|_| routes.note_censored(often, 10));
    let rows = routes.top_rows(5);
    let names: Vec<&str> = rows.iter().map(|row| row.route.split(' ').nth(2).unwrap()).collect();
    assert_eq!(names, ["/**", "/many", "/aborted", "/also", "/few"]);
    assert_eq!(routes.top_rows(100).len(), 6);
    // Each row leads to the route's time of service.
    let mut services = ServiceTimes::default();
    (0..4).for_each(|_| services.note(ServiceRoute::of(&route("/many")), units::Nanos(70)));
    let known: Vec<_> = rows.iter().map(|row| services.known(row.service)).collect();
    assert_eq!(known, [Some(units::Nanos(70)), Some(units::Nanos(70)), None, None, None]);
}

/// Correct predictions fall into each tenth equally often.
#[test]
fn predictions_of_independent_sizes_are_calibrated() {
    let mut routes = Routes::new();
    let key = routes.enter(&route("/a"));
    let mut state = 1u64;
    for _ in 0..20_000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // Log-uniform from 1 KiB to 1 MiB.
        let uniform = (state >> 11) as f64 / (1u64 << 53) as f64;
        routes.note(key, (1024.0 * (uniform * 1024f64.ln()).exp()) as u64);
    }
    let counts = routes.calibration();
    assert!(counts.deciles.iter().all(|count| (1800..2200).contains(count)), "{counts:?}");
    let percent = 100.0 * counts.below_p99 as f64 / counts.predicted() as f64;
    assert!((98.5..99.5).contains(&percent), "{percent} % below the 99th percentile");
}

/// A page of 100 KB that is coded to 20 KB goes before a page of 50 KB that is not coded.
#[test]
fn a_coded_response_ranks_by_what_is_sent_of_it() {
    let mut routes = Routes::new();
    let key = routes.enter(&route("/pages/1"));
    finish(&mut routes, key, 40, 100_000);
    let plain = routes.curve(key).unwrap();
    let before = routes.coded_curve(key, Some(100_000)).unwrap();
    assert!(Arc::ptr_eq(&plain, &before), "nothing is known of what coding leaves");
    (0..RATIOS_MIN).for_each(|_| routes.note_coded(key, 100_000, 20_000));
    let announced = routes.coded_curve(key, Some(100_000)).unwrap();
    assert!(announced.rank(0).abs_diff(20_000) <= 1 && announced.rank(0) < 50_000, "{}", announced.rank(0));
    assert!(announced.rank(10_000).abs_diff(10_000) <= 1);
    // Without an announced length the learned rank is the rank after coding.
    let learned = routes.coded_curve(key, None).unwrap();
    assert!(learned.rank(0).abs_diff(plain.rank(0) / 5) < 200, "{} of {}", learned.rank(0), plain.rank(0));
    assert!(Arc::ptr_eq(&learned, &routes.coded_curve(key, None).unwrap()), "jobs share it");
    assert_eq!(routes.curve(key), Some(plain), "responses that are not coded rank as before");
    // Another path ranks by the sizes of all paths; another type has no known sizes.
    let other = routes.enter(&route("/other"));
    assert_eq!(routes.coded_curve(other, Some(1_000)).unwrap().rank(0), 200);
    assert!(routes.coded_curve(other, None).unwrap().rank(0) < 40_000);
    let style = routes.enter(&Route { content_type: b"text/css", ..route("/pages/1") });
    assert_eq!((routes.coded_curve(style, Some(1_000)), routes.coded_curve(style, None)), (None, None));
    let gone = RouteKey { digest: route("/gone").digest(), place: 0 };
    routes.note_coded(gone, 1, 1);
    assert_eq!(routes.coded_curve(gone, Some(1)), None);
}
