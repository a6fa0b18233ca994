//! Runs that a verb starts (not published experiments): one file per verb.
