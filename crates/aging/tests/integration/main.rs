mod changes;
mod clock;
mod execute;
mod parts;
mod planner;
mod profiles;
mod replan;
mod theory;
