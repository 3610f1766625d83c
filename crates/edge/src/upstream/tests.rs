use super::*;

#[test]
fn the_pool_gives_back_the_last_one_and_keeps_its_bounds() {
    let mut pool = Pool::new(Limits {
        idle_ms: 100,
        per_target_max: 2,
        total_max: 3,
    });
    assert_eq!(pool.put(0, &"a", 1), None);
    assert_eq!(pool.put(50, &"a", 2), None);
    assert_eq!(pool.put(50, &"a", 3), Some(3));
    assert_eq!(pool.put(50, &"b", 4), None);
    assert_eq!(pool.put(50, &"c", 5), Some(5));
    let mut expired = Vec::new();
    pool.expire(100, &mut expired);
    assert_eq!((expired, pool.len()), (vec![1], 2));
    assert_eq!(
        (pool.take(149, &"a"), pool.take(149, &"a")),
        (Some((50, 2)), None)
    );
    assert_eq!(pool.take(150, &"b"), None);
    assert!(pool.remove(&"b", &4) && !pool.remove(&"b", &4) && pool.is_empty());
}

#[test]
fn a_request_is_repeated_only_where_that_does_no_harm() {
    let all = Sent {
        is_idempotent: true,
        is_reused: true,
        is_replayable: true,
    };
    assert!(may_retry(
        Failure::Connect,
        Sent {
            is_idempotent: false,
            ..all
        }
    ));
    assert!(!may_retry(
        Failure::Connect,
        Sent {
            is_replayable: false,
            ..all
        }
    ));
    assert!(may_retry(Failure::NoResponse, all));
    for sent in [
        Sent {
            is_idempotent: false,
            ..all
        },
        Sent {
            is_reused: false,
            ..all
        },
        Sent {
            is_replayable: false,
            ..all
        },
    ] {
        assert!(!may_retry(Failure::NoResponse, sent), "{sent:?}");
    }
    assert!(!may_retry(Failure::Response, all) && !may_retry(Failure::TimeOut, all));
}
