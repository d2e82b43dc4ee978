//! Notes in databases: what goes away, tables that are older or were dropped, rights. What every store that keeps notes must do
//! is in `notes.rs`.
#![cfg(any(feature = "mysql", feature = "postgres"))]

#[path = "../claims/mod.rs"]
mod claims;
#[cfg(feature = "mysql")]
mod mariadb;
#[cfg(feature = "postgres")]
mod postgres;
mod stories;
